"""The numbers of an evaluation, from its folder alone. Every share stands beside what it is a share of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vlagent.agent.store import TRAJECTORIES
from vlagent.bench.behaviour import Behaviour, Played, Rate, Timing, behaviour_of, timing_of
from vlagent.bench.config import EvalConfig, read_config
from vlagent.bench.counts import Counts, Episodes, Rows, count, count_episodes
from vlagent.bench.judging import Judging, judging_of
from vlagent.bench.metrics import mean
from vlagent.bench.provenance import Hashes, Start, hashes_of, read_starts
from vlagent.bench.runs import Key, read_rows, read_samples
from vlagent.bench.statistics import Validity, picture_clusters, validity
from vlagent.files import read_records
from vlagent.types import EvalRow, Record, Sample, Trajectory

__all__ = ["Behaviour", "Counts", "Rate", "SuiteSummary", "Summary", "Timing", "count", "summarise"]

PUBLISHED_AVERAGES: dict[str, tuple[str, ...]] = {
    "search": ("mmsearch", "hr_mmsearch", "fvqa_test", "infoseek", "simplevqa", "livevqa", "mat_search"),
    "high resolution": ("vstar", "hrbench_4k", "hrbench_8k", "mme_realworld"),
}
"""The published tables' averages: the mean over these suites, where all of them were run."""


class SuiteSummary(Record):
    """One data set."""

    k: int = 1
    """Rollouts a question."""
    counts: Counts
    slices: dict[str, dict[str, Counts]]
    """kind, difficulty, ... -> value -> counts."""
    episodes: dict[str, dict[str, Episodes]] = Field(default_factory=dict)
    """`tools` (the set that was called), `stop` and `by` (what decided) -> value -> outcomes."""
    behaviour: Behaviour
    timing: Timing


class Summary(Record):
    """summary.json of an evaluation."""

    version: Literal[1] = 1
    model: str | None
    workflow: str
    dialect: str
    k: int
    scoring: str
    """`rules`, or `rules, then judge NAME`."""
    search: str | None = None
    """The index, configuration or recording that was searched."""
    pixels: dict[str, int]
    """Limits of picture sizes: the first suspect when scores differ."""
    sampling: dict[str, Any]
    limits: dict[str, Any] = Field(default_factory=dict)
    """Turns, tokens, results of a search, where crops come from."""
    counts: Counts
    macro_average: float | None
    """Mean of the suites' accuracies."""
    averages: dict[str, float] = Field(default_factory=dict)
    """The averages of the published tables, where all their suites were run."""
    validity: Validity | None = None
    suites: dict[str, SuiteSummary]
    judging: Judging = Judging()
    hashes: Hashes | None = None
    provenance: tuple[Start, ...] = ()
    """A start each: date, versions, services."""
    notes: tuple[str, ...] = ()


def summarise(run: Path) -> Summary:
    """Compute the summary of a run folder. Raises `UserError` where it is none."""
    config, samples = read_config(run), read_samples(run)
    rows = read_rows(run)
    played, clusters = _read_played(run, samples), picture_clusters(samples)
    suites = {}
    for name in dict.fromkeys(sample.source for sample in samples):
        members = [sample for sample in samples if sample.source == name]
        suites[name] = _suite(members, rows, config, clusters, played[name])
    counts = count(samples, rows, config.rollouts_of, clusters, seed=config.agent.seed)
    prompts = {prompt for each in played.values() for prompt in each.prompts}
    valid = validity(failed=counts.failed, unscored=counts.unscored, total=counts.total, limit=config.max_failed_share)
    return Summary(
        **_settings(config),
        counts=counts,
        **_averages(suites),
        validity=valid,
        suites=suites,
        judging=judging_of(run),
        hashes=hashes_of(run, config, prompts),
        provenance=read_starts(run),
        notes=_notes(config, valid),
    )


def _settings(config: EvalConfig) -> dict[str, Any]:
    agent = config.agent
    return {
        "model": config.model,
        "workflow": agent.workflow,
        "dialect": agent.dialect,
        "k": max([config.k, *config.k_of.values()]),
        "scoring": _scoring(config),
        "search": config.search,
        "pixels": agent.pixels.model_dump(),
        "sampling": agent.sampling.model_dump(exclude_none=True),
        "limits": {
            "max_turns": agent.max_turns,
            "max_tokens_turn": agent.max_tokens_turn,
            "max_tokens_total": agent.max_tokens_total,
            "top_k": agent.top_k,
            "crop_source": agent.crop_source,
            "tools": list(agent.tools) if agent.workflow == "agent" else [],
            "seed": agent.seed,
        },
    }


def _scoring(config: EvalConfig) -> str:
    if not config.judges:
        return "rules"
    many = f" ({config.judge_decides} decides)" if len(config.judges) > 1 else ""
    return f"rules, then judge {', '.join(config.judges)}{many}"


def _averages(suites: Mapping[str, SuiteSummary]) -> dict[str, Any]:
    accuracies = {name: suite.counts.accuracy for name, suite in suites.items()}
    known = [accuracy for accuracy in accuracies.values() if accuracy is not None]
    found = {}
    for name, members in PUBLISHED_AVERAGES.items():
        values = [accuracies.get(member) for member in members]
        scores = [value for value in values if value is not None]
        if len(scores) == len(members):
            found[name] = sum(scores) / len(scores)
    return {"macro_average": mean(known) if len(known) == len(accuracies) else None, "averages": found}


def _notes(config: EvalConfig, valid: Validity) -> tuple[str, ...]:
    ks = [k for k in (config.k, *config.k_of.values()) if k > 1]
    noise = ks and config.agent.sampling.temperature == 0
    return (
        *([f"Avg@{max(ks)} at temperature 0 measures the noise of the engine only"] if noise else []),
        *([valid.why] if valid.why and not valid.valid else []),
    )


def _read_played(run: Path, samples: Sequence[Sample]) -> dict[str, Played]:
    """Episodes by suite; `Book.compact` has left one record each."""
    suite_of = {sample.id: sample.source for sample in samples}
    played = {name: Played() for name in suite_of.values()}
    for trajectory in read_records(run / TRAJECTORIES, Trajectory):
        if trajectory.sample_id in suite_of:
            played[suite_of[trajectory.sample_id]].add(trajectory)
    return played


def _suite(
    members: Sequence[Sample], rows: Rows, config: EvalConfig, clusters: Mapping[str, str], played: Played
) -> SuiteSummary:
    k = config.rollouts_of(members[0].source)
    own = {
        (sample.id, rollout): rows[sample.id, rollout]
        for sample in members
        for rollout in range(k)
        if (sample.id, rollout) in rows
    }
    return SuiteSummary(
        k=k,
        counts=count(members, rows, config.rollouts_of, clusters, seed=config.agent.seed),
        slices=_slices(members, rows, config, clusters),
        episodes=_episodes(own, played),
        behaviour=behaviour_of(played, own.values()),
        timing=timing_of(played),
    )


def _slices(
    members: Sequence[Sample], rows: Rows, config: EvalConfig, clusters: Mapping[str, str]
) -> dict[str, dict[str, Counts]]:
    """A slice holds the questions whose rows carry its value; a question without any row is in none."""
    value_of: dict[str, dict[str, set[str]]] = {}
    for row in rows.values():
        for name, value in row.slices.items():
            value_of.setdefault(name, {}).setdefault(value, set()).add(row.sample_id)
    slices: dict[str, dict[str, Counts]] = {}
    for name in sorted(value_of):
        for value in sorted(value_of[name]):
            within = [sample for sample in members if sample.id in value_of[name][value]]
            if within:
                slices.setdefault(name, {})[value] = count(within, rows, config.rollouts_of, clusters)
    return slices


def _episodes(own: Mapping[Key, EvalRow], played: Played) -> dict[str, dict[str, Episodes]]:
    named = {
        "tools": [(played.tool_sets[key], row) for key, row in own.items() if key in played.tool_sets],
        "stop": [(str(row.stop), row) for row in own.values()],
        "by": [(row.by, row) for row in own.values() if row.by],
    }
    return {name: _grouped(pairs) for name, pairs in named.items() if pairs}


def _grouped(pairs: Iterable[tuple[str, EvalRow]]) -> dict[str, Episodes]:
    groups: dict[str, list[EvalRow]] = {}
    for value, row in pairs:
        groups.setdefault(value, []).append(row)
    return {value: count_episodes(groups[value]) for value in sorted(groups)}
