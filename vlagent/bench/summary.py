"""The numbers of an evaluation, from its folder alone. Every share stands beside what it is a share of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vlagent.agent.store import TRAJECTORIES
from vlagent.bench.config import EvalConfig, read_config
from vlagent.bench.metrics import clustered_standard_error, mean, quantile, wilson_interval
from vlagent.bench.runs import Key, read_samples
from vlagent.files import read_records
from vlagent.types import EvalRow, Fault, Outcome, Record, Sample, Trajectory


class Counts(Record):
    """right + wrong + unscored + failed = total, always; what was stopped or not yet played stands apart."""

    questions: int
    planned: int
    """Questions x rollouts."""
    total: int
    right: int
    wrong: int
    unscored: int
    failed: int
    not_counted: int = 0
    pending: int = 0
    """Not played, or not scored yet."""
    degraded: int = 0
    """Of the total: a service failed on the way, but it was answered."""
    scored: int
    """right + wrong: what accuracy is a share of."""
    accuracy: float | None
    standard_error: float | None
    """Clustered by question."""
    interval: tuple[float, float] | None
    """95 %: Wilson's for one rollout a question, mean +- 1.96 standard errors for several."""
    avg_at_k: float | None
    """Mean over questions of the share of their scored rollouts that are right."""
    avg_questions: int
    """Questions with a scored rollout."""
    pass_at_k: float | None
    """Share of questions with a right rollout, among those whose k rollouts are all scored."""
    pass_questions: int


class Behaviour(Record):
    """What the episodes did, over those that were played (`episodes`)."""

    episodes: int
    stops: dict[str, int]
    turns: float | None
    """A mean per episode, like all floats here unless they say otherwise."""
    calls: float | None
    tool_calls: dict[str, float]
    world_faults: dict[str, int]
    """Calls that a service failed, by tool."""
    invalid: float | None
    repairs: dict[str, int]
    """Turns with each repair."""
    format_rate: float | None
    """Share of the scored episodes that are in form."""
    format_scored: int
    prompt_tokens: float | None
    completion_tokens: float | None
    cost_usd: float
    """Sum."""


class Timing(Record):
    """Seconds an episode; the only part that differs between two runs of the same thing."""

    p50_s: float | None
    p95_s: float | None


class SuiteSummary(Record):
    """One data set."""

    counts: Counts
    slices: dict[str, dict[str, Counts]]
    """kind, difficulty, ... -> value -> counts."""
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
    pixels: dict[str, int]
    """Limits of picture sizes: the first suspect when scores differ."""
    sampling: dict[str, Any]
    counts: Counts
    macro_average: float | None
    """Mean of the suites' accuracies."""
    suites: dict[str, SuiteSummary]
    notes: tuple[str, ...] = ()


@dataclass
class _Played:
    """What the summary needs of the episodes of one suite."""

    stops: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    world_faults: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    invalid: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    costs: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, trajectory: Trajectory) -> None:
        self.stops[str(trajectory.stop)] += 1
        self.turns += len(trajectory.turns)
        self.prompt_tokens += trajectory.usage.prompt_tokens
        self.completion_tokens += trajectory.usage.completion_tokens
        self.costs.append(trajectory.usage.cost_usd)
        self.seconds.append(trajectory.timings.total_s)
        for turn in trajectory.turns:
            self.invalid += turn.error is not None
            self.repairs.update(set(turn.repairs))
            if turn.call:
                self.calls[turn.call.name] += 1
                if turn.observation and turn.observation.fault is Fault.WORLD:
                    self.world_faults[turn.call.name] += 1


def summarise(run: Path) -> Summary:
    """Compute the summary of a run folder. Raises `UserError` where it is none."""
    config, samples = read_config(run), read_samples(run)
    rows = {(row.sample_id, row.rollout): row for row in read_records(run / "rows.jsonl", EvalRow)}
    played = _read_played(run, samples)
    suites = {}
    for name in dict.fromkeys(sample.source for sample in samples):
        members = [sample for sample in samples if sample.source == name]
        suites[name] = _suite(members, rows, config.k, played[name])
    accuracies = [suite.counts.accuracy for suite in suites.values()]
    known = [accuracy for accuracy in accuracies if accuracy is not None]
    return Summary(
        model=config.model,
        workflow=config.agent.workflow,
        dialect=config.agent.dialect,
        k=config.k,
        scoring=f"rules, then judge {config.judge_model}" if config.judge_model else "rules",
        pixels=config.agent.pixels.model_dump(),
        sampling=config.agent.sampling.model_dump(exclude_none=True),
        counts=count(samples, rows, config.k),
        macro_average=mean(known) if len(known) == len(accuracies) else None,
        suites=suites,
        notes=_notes(config),
    )


def _notes(config: EvalConfig) -> tuple[str, ...]:
    if config.k > 1 and config.agent.sampling.temperature == 0:
        return (f"Avg@{config.k} at temperature 0 measures the noise of the engine only",)
    return ()


def _read_played(run: Path, samples: Sequence[Sample]) -> dict[str, _Played]:
    """Episodes by suite; `Book.compact` has left one record each."""
    suite_of = {sample.id: sample.source for sample in samples}
    played = {name: _Played() for name in suite_of.values()}
    for trajectory in read_records(run / TRAJECTORIES, Trajectory):
        if trajectory.sample_id in suite_of:
            played[suite_of[trajectory.sample_id]].add(trajectory)
    return played


def _suite(members: Sequence[Sample], rows: dict[Key, EvalRow], k: int, played: _Played) -> SuiteSummary:
    own = [rows[sample.id, rollout] for sample in members for rollout in range(k) if (sample.id, rollout) in rows]
    return SuiteSummary(
        counts=count(members, rows, k),
        slices=_slices(members, rows, k),
        behaviour=_behaviour(played, own),
        timing=Timing(p50_s=quantile(played.seconds, 0.5), p95_s=quantile(played.seconds, 0.95)),
    )


def _slices(members: Sequence[Sample], rows: dict[Key, EvalRow], k: int) -> dict[str, dict[str, Counts]]:
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
                slices.setdefault(name, {})[value] = count(within, rows, k)
    return slices


def _behaviour(played: _Played, rows: Iterable[EvalRow]) -> Behaviour:
    episodes = played.stops.total()
    forms = [row.reward.parts["format"] for row in rows if row.reward and row.outcome in (Outcome.RIGHT, Outcome.WRONG)]

    def each(value: float) -> float | None:
        return value / episodes if episodes else None

    return Behaviour(
        episodes=episodes,
        stops=_sorted(played.stops),
        turns=each(played.turns),
        calls=each(played.calls.total()),
        tool_calls={name: number / episodes for name, number in sorted(played.calls.items())},
        world_faults=_sorted(played.world_faults),
        invalid=each(played.invalid),
        repairs=_sorted(played.repairs),
        format_rate=mean(forms),
        format_scored=len(forms),
        prompt_tokens=each(played.prompt_tokens),
        completion_tokens=each(played.completion_tokens),
        cost_usd=math.fsum(played.costs),
    )


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def count(members: Sequence[Sample], rows: dict[Key, EvalRow], k: int) -> Counts:
    """Count the outcomes of some questions. A sum that does not add up is a bug of ours and raises."""
    of: Counter[Outcome] = Counter()
    clusters, degraded, pending = [], 0, 0
    for sample in members:
        found = [rows.get((sample.id, rollout)) for rollout in range(k)]
        of.update(row.outcome for row in found if row)
        degraded += sum(row.degraded for row in found if row and row.outcome is not Outcome.NOT_COUNTED)
        pending += found.count(None)
        clusters.append([float(row.outcome is Outcome.RIGHT) for row in found if row and _is_scored(row)])
    scored = of[Outcome.RIGHT] + of[Outcome.WRONG]
    planned = len(members) * k
    total = planned - pending - of[Outcome.NOT_COUNTED]
    if scored + of[Outcome.UNSCORED] + of[Outcome.FAILED] != total or scored != sum(map(len, clusters)):
        raise AssertionError(f"right + wrong + unscored + failed is not {total}: {dict(of)}")
    return Counts(
        questions=len(members),
        planned=planned,
        total=total,
        right=of[Outcome.RIGHT],
        wrong=of[Outcome.WRONG],
        unscored=of[Outcome.UNSCORED],
        failed=of[Outcome.FAILED],
        not_counted=of[Outcome.NOT_COUNTED],
        pending=pending,
        degraded=degraded,
        scored=scored,
        **_accuracy(clusters, of[Outcome.RIGHT], k),
    )


def _accuracy(clusters: Sequence[Sequence[float]], right: int, k: int) -> dict[str, Any]:
    answered = [cluster for cluster in clusters if cluster]
    whole = [cluster for cluster in clusters if len(cluster) == k]
    scored = sum(map(len, clusters))
    accuracy = right / scored if scored else None
    error = clustered_standard_error(clusters)
    interval = wilson_interval(right, scored) if k == 1 else None
    if k > 1 and accuracy is not None and error is not None:
        interval = (max(0.0, accuracy - 1.96 * error), min(1.0, accuracy + 1.96 * error))
    return {
        "accuracy": accuracy,
        "standard_error": error,
        "interval": interval,
        "avg_at_k": mean([math.fsum(cluster) / len(cluster) for cluster in answered]),
        "avg_questions": len(answered),
        "pass_at_k": mean([float(any(cluster)) for cluster in whole]),
        "pass_questions": len(whole),
    }


def _is_scored(row: EvalRow) -> bool:
    return row.outcome in (Outcome.RIGHT, Outcome.WRONG)
