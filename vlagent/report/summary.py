"""The tables on top of a page, from the `summary.json` of an evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from vlagent.bench.behaviour import Rate
from vlagent.bench.summary import Counts, SuiteSummary, Summary

COUNTED = ("right", "wrong", "unscored", "failed", "not_counted", "pending", "total")
EPISODES = {"tools": "Tools that were called", "stop": "How episodes ended", "by": "What decided"}


@dataclass(frozen=True)
class Table:
    """A caption, column names and rows of text."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    """Whether it is opened only on demand; its cells are words, not numbers."""


def read_summary(value: dict[str, Any]) -> Summary | None:
    """The record, or None where it is not an evaluation's summary."""
    try:
        return Summary.model_validate(value)
    except ValidationError:
        return None


def summary_tables(value: dict[str, Any]) -> list[Table]:
    """Results by data set and slice, then how they were made; nothing where it is not an evaluation's summary."""
    summary = read_summary(value)
    if summary is None:
        return []
    found = [_results(summary), _episodes(summary), _behaviour(summary), _services(summary), _judges(summary)]
    return [table for table in (*found, _settings(summary)) if table.rows]


def _results(summary: Summary) -> Table:
    many = summary.k > 1
    measure = (f"Avg@{summary.k}", f"pass@{summary.k}") if many else ("accuracy",)
    rows: list[tuple[str, ...]] = []
    for name, suite in summary.suites.items():
        rows += [_counts_row(name, suite.counts, many), *_slice_rows(suite, many)]
    if len(summary.suites) > 1:
        rows.append(_counts_row("all questions", summary.counts, many))
        rows.append(_average_row("mean of the data sets", summary.macro_average, many))
        rows += [_average_row(f"published average, {name}", value, many) for name, value in summary.averages.items()]
    head = ("", *measure, "95 % interval", *(name.replace("_", " ") for name in COUNTED))
    return Table("Results", head, tuple(rows))


def _slice_rows(suite: SuiteSummary, many: bool) -> list[tuple[str, ...]]:
    wanted = [(key, values) for key, values in suite.slices.items() if len(values) > 1]
    return [
        _counts_row(f"\u2003{key} {value}", counts, many) for key, values in wanted for value, counts in values.items()
    ]


def _counts_row(name: str, counts: Counts, many: bool) -> tuple[str, ...]:
    value = counts.avg_at_k if many else counts.accuracy
    error = "" if counts.standard_error is None else f" ± {100 * counts.standard_error:.1f}"
    interval = "" if counts.interval is None else f"{100 * counts.interval[0]:.1f} to {100 * counts.interval[1]:.1f}"
    shares = (_percent(value) + error, *([_percent(counts.pass_at_k)] if many else []))
    return (name, *shares, interval, *(str(getattr(counts, field)) for field in COUNTED))


def _average_row(name: str, value: float | None, many: bool) -> tuple[str, ...]:
    return (name, _percent(value), *([""] if many else []), "", *("" for _ in COUNTED))


def _percent(value: float | None) -> str:
    return "none scored" if value is None else f"{100 * value:.1f} %"


def _episodes(summary: Summary) -> Table:
    rows = []
    for name, suite in summary.suites.items():
        for key, values in suite.episodes.items():
            for value, each in values.items() if len(values) > 1 else ():
                numbers = (each.right, each.wrong, each.unscored, each.failed, each.total)
                rows.append((name, EPISODES[key], value, _percent(each.accuracy), *map(str, numbers)))
    head = ("data set", "", "", "accuracy", "right", "wrong", "unscored", "failed", "total")
    return Table("Episodes by what happened in them", head, tuple(rows), folded=True)


def _behaviour(summary: Summary) -> Table:
    rows = []
    for name, suite in summary.suites.items():
        seen, timing = suite.behaviour, suite.timing
        calls = ", ".join(f"{tool} {share:.2f}" for tool, share in seen.tool_calls.items())
        stops = ", ".join(f"{stop} {count}" for stop, count in seen.stops.items())
        form = "" if seen.format_rate is None else f"{100 * seen.format_rate:.1f} %"
        tokens = f"{_number(seen.prompt_tokens, 0)} + {_number(seen.completion_tokens, 0)}"
        means = (_number(seen.turns), form, _number(seen.invalid), tokens, f"{seen.cost_usd:.2f}")
        rows.append((name, *means, _number(timing.p50_s), _number(timing.p95_s), calls, stops))
    head = ("an episode", "turns", "in form", "invalid", "tokens", "cost $, all", "p50 s", "p95 s", "calls", "stops")
    return Table("Behaviour", head, tuple(rows), folded=True)


def _services(summary: Summary) -> Table:
    names = dict.fromkeys(name for suite in summary.suites.values() for name in suite.behaviour.services)
    rows = []
    for name in names:
        rates = [
            suite.behaviour.services[name] for suite in summary.suites.values() if name in suite.behaviour.services
        ]
        p95 = [suite.timing.tools_p95_s[name] for suite in summary.suites.values() if name in suite.timing.tools_p95_s]
        rows.append((name, *_rate_cells(rates), f"{max(p95):.2f}" if p95 else ""))
    head = ("service", "worked", "of", "calls", "p95 s, worst data set")
    return Table("Services", head, tuple(rows), folded=True)


def _rate_cells(rates: Iterable[Rate]) -> tuple[str, str, str]:
    pairs = [(rate.ok, rate.total) for rate in rates]
    ok, total = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return (f"{100 * ok / total:.1f} %" if total else "", str(ok), str(total))


def _judges(summary: Summary) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, each in summary.judging.judges.items():
        counts = (each.asked, each.yes, each.no, each.no_verdict, each.failed, each.cached)
        tokens = f"{each.prompt_tokens} + {each.completion_tokens}"
        rows.append((name, *map(str, counts), tokens, f"{each.cost_usd:.2f}", _number(each.p50_s), _number(each.p95_s)))
    agreement = summary.judging.agreement
    for pair in agreement.pairs if agreement else ():
        said = f"agree on {_percent(pair.share)} of {pair.answers}, kappa {_number(pair.kappa)}"
        rows.append((f"{pair.first} and {pair.second}", said, *[""] * 9))
    if agreement:
        rows.append(("all judges", f"Krippendorff's alpha {_number(agreement.alpha)}", *[""] * 9))
    counted = ("asked", "yes", "no", "no verdict", "failed", "cached")
    return Table("Judges", ("judge", *counted, "tokens", "cost $", "p50 s", "p95 s"), tuple(rows), folded=True)


def _number(value: float | None, digits: int = 2) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _settings(summary: Summary) -> Table:
    return Table("Settings", ("", "value"), tuple(settings_of(summary).items()), folded=True)


def settings_of(summary: Summary) -> dict[str, str]:
    """What stands behind the scores, a line each, in words."""
    sampling = {name: value for name, value in summary.sampling.items() if value is not None}
    pairs = {
        "model": summary.model or "",
        "workflow": summary.workflow,
        "dialect": summary.dialect,
        "scored by": summary.scoring,
        "search": summary.search or "",
        "picture sizes": json.dumps(summary.pixels),
        "sampling": json.dumps(sampling),
        "limits": json.dumps(summary.limits) if summary.limits else "",
        **_hashes(summary),
        **_starts(summary),
        "notes": "; ".join(summary.notes),
    }
    return {name: value for name, value in pairs.items() if value}


def _hashes(summary: Summary) -> dict[str, str]:
    found = summary.hashes
    if found is None:
        return {}
    return {
        "configuration, SHA-256": found.config,
        "data, SHA-256": found.data,
        "prompts, SHA-256": ", ".join(found.prompts),
        "judge's rules, SHA-256": found.judge_rules or "",
    }


def _starts(summary: Summary) -> dict[str, str]:
    if not summary.provenance:
        return {}
    last = summary.provenance[-1]
    packages = ", ".join(f"{name} {version}" for name, version in last.packages.items())
    return {
        "started": ", ".join(start.started for start in summary.provenance),
        "versions": f"vlagent {last.vlagent}, Python {last.python}, {packages} on {last.machine}",
        "endpoint": last.endpoint or "",
        "services": ", ".join(f"{name}: {kind}" for name, kind in last.search.items()),
    }
