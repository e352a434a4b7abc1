"""Right, wrong and the rest, and how sure a share of them is. Every share stands beside what it is a share of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from vlagent.bench.metrics import clustered_standard_error, mean, wilson_interval
from vlagent.bench.runs import Key
from vlagent.bench.statistics import cluster_bootstrap, in_clusters
from vlagent.types import EvalRow, Outcome, Record, Sample

Rows = Mapping[Key, EvalRow]
RolloutsOf = Callable[[str], int]
"""Rollouts a question of a data set."""


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
    """Clustered by question, and by picture where questions share one."""
    interval: tuple[float, float] | None
    """95 %: Wilson's where every cluster is one value, else mean +- 1.96 clustered standard errors."""
    bootstrap: tuple[float, float] | None = None
    """95 %, percentile bootstrap over clusters; of whole data sets only."""
    clusters: int = 0
    """Questions with a scored rollout, those that share a picture counted as one."""
    avg_at_k: float | None
    """Mean over questions of the share of their scored rollouts that are right."""
    avg_questions: int
    """Questions with a scored rollout."""
    pass_at_k: float | None
    """Share of questions with a right rollout, among those whose k rollouts are all scored."""
    pass_questions: int


class Episodes(Record):
    """Outcomes of some episodes that are told apart by what happened in them."""

    total: int
    right: int
    wrong: int
    unscored: int
    failed: int
    accuracy: float | None


def count(
    members: Sequence[Sample],
    rows: Rows,
    rollouts_of: RolloutsOf,
    cluster_of: Mapping[str, str] | None = None,
    *,
    seed: int | None = None,
) -> Counts:
    """Count the outcomes of some questions; with a `seed`, bootstrap as well.

    A sum that does not add up is a bug of ours and raises.
    """
    of: Counter[Outcome] = Counter()
    values: dict[str, list[float]] = {}
    whole, degraded, pending, planned = [], 0, 0, 0
    for sample in members:
        k = rollouts_of(sample.source)
        found = [rows.get((sample.id, rollout)) for rollout in range(k)]
        planned += k
        of.update(row.outcome for row in found if row)
        degraded += sum(row.degraded for row in found if row and row.outcome is not Outcome.NOT_COUNTED)
        pending += found.count(None)
        values[sample.id] = [float(row.outcome is Outcome.RIGHT) for row in found if row and is_scored(row)]
        whole += [values[sample.id]] if len(values[sample.id]) == k else []
    scored = of[Outcome.RIGHT] + of[Outcome.WRONG]
    total = planned - pending - of[Outcome.NOT_COUNTED]
    if scored + of[Outcome.UNSCORED] + of[Outcome.FAILED] != total or scored != sum(map(len, values.values())):
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
        **_accuracy(in_clusters(values, cluster_of or {}), seed),
        **_by_question([own for own in values.values() if own], whole),
    )


def _accuracy(clusters: Sequence[Sequence[float]], seed: int | None) -> dict[str, Any]:
    right, scored = int(math.fsum(map(math.fsum, clusters))), sum(map(len, clusters))
    accuracy, error = (right / scored if scored else None), clustered_standard_error(clusters)
    interval = wilson_interval(right, scored)
    if scored > len(clusters) and accuracy is not None:
        low_high = (max(0.0, accuracy - 1.96 * error), min(1.0, accuracy + 1.96 * error)) if error is not None else None
        interval = low_high
    return {
        "accuracy": accuracy,
        "standard_error": error,
        "interval": interval,
        "bootstrap": None if seed is None else cluster_bootstrap(clusters, seed=seed),
        "clusters": len(clusters),
    }


def _by_question(answered: Sequence[Sequence[float]], whole: Sequence[Sequence[float]]) -> dict[str, Any]:
    return {
        "avg_at_k": mean([math.fsum(own) / len(own) for own in answered]),
        "avg_questions": len(answered),
        "pass_at_k": mean([float(any(own)) for own in whole]),
        "pass_questions": len(whole),
    }


def is_scored(row: EvalRow) -> bool:
    """Whether a row is part of what accuracy is a share of."""
    return row.outcome in (Outcome.RIGHT, Outcome.WRONG)


def count_episodes(rows: Iterable[EvalRow]) -> Episodes:
    """The outcomes of some episodes; those that were stopped are left out."""
    of = Counter(row.outcome for row in rows)
    scored = of[Outcome.RIGHT] + of[Outcome.WRONG]
    return Episodes(
        total=scored + of[Outcome.UNSCORED] + of[Outcome.FAILED],
        right=of[Outcome.RIGHT],
        wrong=of[Outcome.WRONG],
        unscored=of[Outcome.UNSCORED],
        failed=of[Outcome.FAILED],
        accuracy=of[Outcome.RIGHT] / scored if scored else None,
    )
