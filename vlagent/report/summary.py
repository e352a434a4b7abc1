"""The tables on top of a page, from the `summary.json` of an evaluation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from vlagent.bench.summary import Counts, SuiteSummary, Summary

COUNTED = ("right", "wrong", "unscored", "failed", "not_counted", "pending", "total")


@dataclass(frozen=True)
class Table:
    """A caption, column names and rows of text."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False
    """Whether it is opened only on demand; its cells are words, not numbers."""


def summary_tables(value: dict[str, Any]) -> list[Table]:
    """Results by data set and slice, then how they were made; nothing where it is not an evaluation's summary."""
    try:
        summary = Summary.model_validate(value)
    except ValidationError:
        return []
    return [_results(summary), _behaviour(summary), _settings(summary)]


def _results(summary: Summary) -> Table:
    many = summary.k > 1
    measure = (f"Avg@{summary.k}", f"pass@{summary.k}") if many else ("accuracy",)
    rows: list[tuple[str, ...]] = []
    for name, suite in summary.suites.items():
        rows += [_counts_row(name, suite.counts, many), *_slice_rows(suite, many)]
    if len(summary.suites) > 1:
        rows.append(_counts_row("all questions", summary.counts, many))
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


def _percent(value: float | None) -> str:
    return "none scored" if value is None else f"{100 * value:.1f} %"


def _behaviour(summary: Summary) -> Table:
    rows = []
    for name, suite in summary.suites.items():
        seen, timing = suite.behaviour, suite.timing
        calls = ", ".join(f"{tool} {share:.2f}" for tool, share in seen.tool_calls.items())
        stops = ", ".join(f"{stop} {count}" for stop, count in seen.stops.items())
        means = (_number(seen.turns), _number(seen.invalid), _number(timing.p50_s), _number(timing.p95_s))
        rows.append((name, *means, calls, stops))
    head = ("an episode", "turns", "invalid", "p50 s", "p95 s", "calls", "stop reasons")
    return Table("Behaviour", head, tuple(rows), folded=True)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _settings(summary: Summary) -> Table:
    sampling = {name: value for name, value in summary.sampling.items() if value is not None}
    pairs = {
        "model": summary.model or "",
        "workflow": summary.workflow,
        "dialect": summary.dialect,
        "scored by": summary.scoring,
        "picture sizes": json.dumps(summary.pixels),
        "sampling": json.dumps(sampling),
        **({"notes": "; ".join(summary.notes)} if summary.notes else {}),
    }
    return Table("Settings", ("", "value"), tuple(pairs.items()), folded=True)
