"""Two runs, question by question: the same questions, paired, with what changed and how sure that is.

A question's value is the share of its scored rollouts that are right. Questions that share a picture are one cluster:
they are drawn together, and count once in the test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from vlagent.bench.counts import is_scored
from vlagent.bench.metrics import mcnemar_exact, mean
from vlagent.bench.statistics import cluster_bootstrap, picture_clusters
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.types import EvalRow, Outcome, Record, Sample

Key = tuple[str, str]
"""(suite, sample id within it)."""


class Flip(Record):
    """A question whose value differs."""

    suite: str
    sample_id: str
    first: float
    second: float
    first_answer: str | None
    second_answer: str | None
    answers: tuple[str, ...]


class Unpaired(Record):
    """A question that cannot be compared, and why."""

    suite: str
    sample_id: str
    why: str


class Pairing(Record):
    """The paired numbers of one suite, or of all."""

    pairs: int
    """Questions that both runs scored: what every share here is a share of."""
    first: float | None
    second: float | None
    difference: float | None
    """Second minus first."""
    interval: tuple[float, float] | None
    """95 %, paired bootstrap over clusters of questions that share a picture."""
    p_value: float
    """Exact, two-sided: McNemar's test; the sign test on clusters where a cluster has several questions or rollouts."""
    clusters: int = 0
    better: int
    worse: int
    same: int


class Comparison(Record):
    """summary of `compare`."""

    version: Literal[1] = 1
    first: str
    second: str
    all: Pairing
    suites: dict[str, Pairing]
    flips: tuple[Flip, ...]
    unpaired: tuple[Unpaired, ...]


def compare(first: Path, second: Path, *, seed: int = 0) -> Comparison:
    """Compare two run folders. Raises `UserError` where one is none, or where they share no question."""
    a, b = _read(first), _read(second)
    unpaired = [_unpaired(key, a.get(key), b.get(key), (first, second)) for key in _all_keys(a, b)]
    left_out = {(each.suite, each.sample_id) for each in unpaired if each}
    keys = [key for key in _all_keys(a, b) if key not in left_out]
    if not keys:
        raise UserError(f"{first} and {second} share no question that both have scored")
    pairs = {key: (_value(a[key]), _value(b[key])) for key in keys}
    cluster_of = _clusters(first)
    suites = dict.fromkeys(suite for suite, _ in keys)
    return Comparison(
        first=str(first),
        second=str(second),
        all=_pairing(pairs, cluster_of, seed),
        suites={
            name: _pairing({key: pairs[key] for key in keys if key[0] == name}, cluster_of, seed) for name in suites
        },
        flips=tuple(_flip(key, pairs[key], a[key], b[key]) for key in keys if pairs[key][0] != pairs[key][1]),
        unpaired=tuple(each for each in unpaired if each),
    )


def _read(run: Path) -> dict[Key, list[EvalRow]]:
    """The rows of a run by question; of several attempts at one rollout, the last."""
    latest = {(row.suite, row.sample_id, row.rollout): row for row in read_records(run / "rows.jsonl", EvalRow)}
    if not latest:
        raise UserError(f"{run}: holds no rows.jsonl of an evaluation")
    questions: dict[Key, list[EvalRow]] = {}
    for row in latest.values():
        questions.setdefault((row.suite, row.sample_id.removeprefix(f"{row.suite}/")), []).append(row)
    return questions


def _all_keys(a: Mapping[Key, object], b: Mapping[Key, object]) -> list[Key]:
    return list(dict.fromkeys([*a, *b]))


def _unpaired(key: Key, a: list[EvalRow] | None, b: list[EvalRow] | None, runs: tuple[Path, Path]) -> Unpaired | None:
    if a is None or b is None:
        why = f"only in {runs[0] if b is None else runs[1]}"
    elif a[0].answers != b[0].answers:
        why = "its accepted answers differ"
    elif not (_scored(a) and _scored(b)):
        run, rows = (runs[0], a) if not _scored(a) else (runs[1], b)
        why = f"{rows[0].outcome} in {run}"
    else:
        return None
    return Unpaired(suite=key[0], sample_id=key[1], why=why)


def _scored(rows: Sequence[EvalRow]) -> list[EvalRow]:
    return [row for row in rows if is_scored(row)]


def _value(rows: Sequence[EvalRow]) -> float:
    scored = _scored(rows)
    return sum(row.outcome is Outcome.RIGHT for row in scored) / len(scored)


def _clusters(run: Path) -> dict[Key, str]:
    """The cluster of each question of a run; nothing where its samples are not there."""
    samples = list(read_records(run / "samples.jsonl", Sample))
    found = picture_clusters(samples)
    return {(sample.source, sample.id.removeprefix(f"{sample.source}/")): found[sample.id] for sample in samples}


def _pairing(pairs: Mapping[Key, tuple[float, float]], cluster_of: Mapping[Key, str], seed: int) -> Pairing:
    differences = {key: second - first for key, (first, second) in pairs.items()}
    clusters: dict[object, list[float]] = {}
    for key, difference in differences.items():
        clusters.setdefault(cluster_of.get(key, key), []).append(difference)
    sums = [math.fsum(cluster) for cluster in clusters.values()]
    better, worse = sum(value > 0 for value in differences.values()), sum(value < 0 for value in differences.values())
    return Pairing(
        pairs=len(pairs),
        first=mean([first for first, _ in pairs.values()]),
        second=mean([second for _, second in pairs.values()]),
        difference=mean(list(differences.values())),
        interval=cluster_bootstrap(list(clusters.values()), seed=seed),
        p_value=mcnemar_exact(sum(value < 0 for value in sums), sum(value > 0 for value in sums)),
        clusters=len(clusters),
        better=better,
        worse=worse,
        same=len(pairs) - better - worse,
    )


def _flip(key: Key, values: tuple[float, float], a: Sequence[EvalRow], b: Sequence[EvalRow]) -> Flip:
    return Flip(
        suite=key[0],
        sample_id=key[1],
        first=values[0],
        second=values[1],
        first_answer=_scored(a)[0].answer,
        second_answer=_scored(b)[0].answer,
        answers=a[0].answers,
    )
