"""Runs that differ in one thing, compared: by seed, by question, and by how small a difference could have been seen.

A cell is what is compared (arm, data mix, cold start); each has one run a seed. All runs answer the same questions.
S = seeds, Q = questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from vlagent.bench.metrics import bootstrap_interval, mcnemar_exact
from vlagent.bench.student import PairedT, Spread, holm, paired_t, spread
from vlagent.errors import UserError, first_problem
from vlagent.files import read_json
from vlagent.types import Record

Cell = tuple[str, str, str]
"""(arm, mix, start)."""
BEFORE = "before"
"""The arm of a cold start that was not trained further."""
RIGHT, WRONG = "1", "0"
MARKS = f"{RIGHT}{WRONG}-"
"""What a question may have come to; `-` is neither."""


class RunResult(Record):
    """One finished run: what it was, what it cost, how it learnt, what it answered. Small enough to be committed."""

    version: Literal[1] = 1
    arm: str
    mix: str
    start: str
    seed: int
    order: int = 0
    """Of its cell among those of the ablation, for tables."""
    commands: tuple[str, ...]
    """What was started, in order; each can be started again by hand."""
    commit: str
    """Of the checkout that ran; `+` marks uncommitted changes."""
    config: str
    """Digest of everything that decides the result."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """What the run changes in the base configuration."""
    steps: int
    core_s: float
    """Seconds of processor time of the training, over all attempts that ended by themselves."""
    interrupted: int = 0
    """Attempts that were killed; their processor time is not in `core_s`."""
    curves: dict[str, tuple[tuple[float, ...], tuple[float | None, ...]]] = Field(default_factory=dict)
    """Name -> (steps, values)."""
    questions: str
    """Digest of the ids of the questions, in order."""
    kinds: tuple[str, ...]
    """[Q]; the kind of each question."""
    outcomes: str
    """[Q]; 1 right, 0 wrong, - neither (unscored or failed)."""
    calls: float
    """Tool calls of an episode of the evaluation, a mean."""
    redundant: float
    """Those beyond the fewest needed, a mean."""

    @property
    def cell(self) -> Cell:
        return self.arm, self.mix, self.start

    @model_validator(mode="after")
    def _has_one_mark_a_question(self) -> Self:
        if not self.outcomes or len(self.outcomes) != len(self.kinds) or set(self.outcomes) - {*MARKS}:
            raise ValueError(f"outcomes must be one of {MARKS} for each of its {len(self.kinds)} questions")
        return self


class CellSummary(Record):
    """One cell over its seeds. Shares are of scored questions."""

    arm: str
    mix: str
    start: str
    seeds: tuple[int, ...]
    success: Spread
    kinds: dict[str, Spread]
    calls: Spread
    redundant: Spread
    core_s: float
    """A mean over seeds."""
    core_s_most: float
    means: dict[str, float]
    """Of the curves, over steps and seeds: bn/p, bn/factor, ratio/one, clip/low, ..."""
    gain: PairedT | None = None
    """Over the cold start, by seed; None where that was not measured."""
    gain_questions: tuple[float, float] | None = None
    """95 % of the gain by bootstrap over questions."""
    gain_kinds: dict[str, PairedT] = Field(default_factory=dict)

    @property
    def cell(self) -> Cell:
        return self.arm, self.mix, self.start


class Contrast(Record):
    """Two cells that differ in one coordinate: second minus first."""

    by: Literal["arm", "mix", "start"]
    first: Cell
    second: Cell
    seeds: PairedT
    """Differences paired by seed: what another training would give."""
    wins: int
    """Seeds in which the second is ahead."""
    questions: tuple[float, float] | None
    """95 %, bootstrap over questions of the mean over seeds: what other questions would give."""
    question_p: float
    """Exact sign test over questions whose mean over seeds differs."""
    better: int
    worse: int
    same: int
    holm_p: float | None = None
    """The p-value by seed, adjusted for the number of contrasts."""
    verdict: Literal["second", "first", "unclear", "none", "identical"]
    """Which is better: both intervals and the adjusted p-value say so. `unclear`: only some of them do."""


class Analysis(Record):
    """Everything that table, page and verdict say."""

    version: Literal[1] = 1
    runs: int
    questions: int
    kinds: dict[str, int]
    """Questions of each."""
    cells: tuple[CellSummary, ...]
    before: dict[str, CellSummary]
    """The cold starts, by name."""
    contrasts: tuple[Contrast, ...]


def read_results(folder: Path) -> list[RunResult]:
    """The results of an ablation, a file a run. `UserError` where one is damaged or answers other questions."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(RunResult.model_validate(read_json(path)))
        except ValidationError as error:
            raise UserError(f"{path}: not the result of a run ({first_problem(error).said}); remove it") from None
    if len({result.questions for result in found}) > 1:
        raise UserError(f"{folder}: its runs answered different questions; remove the results of one kind")
    names = Counter((result.cell, result.seed) for result in found)
    if twice := [f"{'-'.join(cell)}-s{seed}" for (cell, seed), count in names.items() if count > 1]:
        raise UserError(f"{folder}: two files hold the run {twice[0]}; remove one of them")
    return found


def analyse(results: Sequence[RunResult], *, seed: int = 0) -> Analysis:
    """Compare what there is; cells whose runs are not all done take part with the seeds that they have."""
    if not results:
        raise UserError("no run is finished yet, so there is nothing to compare")
    by_cell: dict[Cell, list[RunResult]] = {}
    for result in sorted(results, key=lambda result: (result.order, result.cell, result.seed)):
        by_cell.setdefault(result.cell, []).append(result)
    before = {cell[2]: runs for cell, runs in by_cell.items() if cell[0] == BEFORE}
    trained = {cell: runs for cell, runs in by_cell.items() if cell[0] != BEFORE}
    kinds = results[0].kinds
    return Analysis(
        runs=len(results),
        questions=len(kinds),
        kinds={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        cells=tuple(_summary(runs, before.get(cell[2]), seed) for cell, runs in trained.items()),
        before={start: _summary(runs, None, seed) for start, runs in before.items()},
        contrasts=tuple(_contrasts(trained, seed)),
    )


def _summary(runs: Sequence[RunResult], before: Sequence[RunResult] | None, seed: int) -> CellSummary:
    first = runs[0]
    kinds = tuple(dict.fromkeys(first.kinds))
    summary = CellSummary(
        arm=first.arm,
        mix=first.mix,
        start=first.start,
        seeds=tuple(run.seed for run in runs),
        success=spread([accuracy(run) for run in runs]),
        kinds={kind: spread([accuracy(run, kind) for run in runs]) for kind in kinds},
        calls=spread([run.calls for run in runs]),
        redundant=spread([run.redundant for run in runs]),
        core_s=math.fsum(run.core_s for run in runs) / len(runs),
        core_s_most=max(run.core_s for run in runs),
        means=_means(runs),
    )
    return _with_gain(summary, runs, before, seed) if before else summary


def _with_gain(summary: CellSummary, runs: Sequence[RunResult], before: Sequence[RunResult], seed: int) -> CellSummary:
    def gain(kind: str | None) -> PairedT:
        start = math.fsum(accuracy(run, kind) for run in before) / len(before)
        return paired_t([accuracy(run, kind) - start for run in runs])

    differences = _per_question(runs) - _per_question(before)
    return summary.model_copy(
        update={
            "gain": gain(None),
            "gain_kinds": {kind: gain(kind) for kind in summary.kinds},
            "gain_questions": _interval(differences, seed),
        }
    )


def accuracy(run: RunResult, kind: str | None = None) -> float:
    """Right over scored, of one kind or of all; NaN where nothing was scored."""
    scored = [o for o, k in zip(run.outcomes, run.kinds, strict=True) if o in (RIGHT, WRONG) and kind in (None, k)]
    return scored.count(RIGHT) / len(scored) if scored else math.nan


def _means(runs: Sequence[RunResult]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for run in runs:
        for name, (_, series) in run.curves.items():
            values.setdefault(name, []).extend(value for value in series if value is not None)
    return {name: math.fsum(each) / len(each) for name, each in values.items() if each}


def _per_question(runs: Sequence[RunResult]) -> NDArray[np.float64]:
    """[Q]; the share of seeds that answer each question rightly, NaN where none was scored."""
    marks = np.array([[{RIGHT: 1.0, WRONG: 0.0}.get(o, math.nan) for o in run.outcomes] for run in runs])
    scored = ~np.isnan(marks)
    counts = scored.sum(axis=0)
    sums = np.where(scored, marks, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), math.nan)


def _interval(differences: NDArray[np.float64], seed: int) -> tuple[float, float] | None:
    known = differences[~np.isnan(differences)]
    return bootstrap_interval(known, lambda drawn: drawn.mean(axis=1), seed=seed, draws=4000)


def _contrasts(trained: Mapping[Cell, Sequence[RunResult]], seed: int) -> list[Contrast]:
    pairs = [(a, b) for a, b in combinations(trained, 2) if sum(x != y for x, y in zip(a, b, strict=True)) == 1]
    made = [_contrast(a, b, trained[a], trained[b], seed) for a, b in pairs]
    known = [contrast for contrast in made if contrast is not None]
    adjusted = holm([contrast.seeds.p_value for contrast in known])
    return [_adjusted(contrast, p) for contrast, p in zip(known, adjusted, strict=True)]


def _adjusted(contrast: Contrast, p: float | None) -> Contrast:
    """A difference that does not outlive the number of contrasts is unclear."""
    lost = contrast.verdict in ("first", "second") and not (p is not None and p < 0.05)
    return contrast.model_copy(update={"holm_p": p} | ({"verdict": "unclear"} if lost else {}))


def _contrast(a: Cell, b: Cell, first: Sequence[RunResult], second: Sequence[RunResult], seed: int) -> Contrast | None:
    """None where no seed is common to both."""
    shared = sorted({run.seed for run in first} & {run.seed for run in second})
    if not shared:
        return None
    ours, theirs = ([run for s in shared for run in runs if run.seed == s] for runs in (first, second))
    differences = [accuracy(y) - accuracy(x) for x, y in zip(ours, theirs, strict=True)]
    paired = _per_question(theirs) - _per_question(ours)
    better, worse = int((paired > 0).sum()), int((paired < 0).sum())
    by_seed, by_question = paired_t(differences), _interval(paired, seed)
    identical = all(x.outcomes == y.outcomes for x, y in zip(ours, theirs, strict=True))
    by: Literal["arm", "mix", "start"] = "arm" if a[0] != b[0] else "mix" if a[1] != b[1] else "start"
    return Contrast(
        by=by,
        first=a,
        second=b,
        seeds=by_seed,
        wins=sum(difference > 0 for difference in differences),
        questions=by_question,
        question_p=mcnemar_exact(worse, better),
        better=better,
        worse=worse,
        same=int((paired == 0).sum()),
        verdict="identical" if identical else _verdict(by_seed.interval, by_question),
    )


def _verdict(
    by_seed: tuple[float, float] | None, by_question: tuple[float, float] | None
) -> Literal["second", "first", "unclear", "none"]:
    sides = {_side(by_seed), _side(by_question)}
    if sides == {1}:
        return "second"
    if sides == {-1}:
        return "first"
    return "none" if sides == {0} else "unclear"


def _side(interval: tuple[float, float] | None) -> int:
    """1 where all of it is above 0, -1 where all of it is below, else 0."""
    if interval is None:
        return 0
    return int(interval[0] > 0) - int(interval[1] < 0)


def curve_over_seeds(runs: Iterable[RunResult], name: str) -> list[tuple[float, float, float | None, float | None]]:
    """(step, mean, low, high) over the seeds that measured a step; no interval where only one did."""
    values: dict[float, list[float]] = {}
    for run in runs:
        steps, series = run.curves.get(name, ((), ()))
        for step, value in zip(steps, series, strict=True):
            if value is not None:
                values.setdefault(step, []).append(value)
    found = []
    for step in sorted(values):
        whole = spread(values[step])
        low, high = whole.interval or (None, None)
        found.append((step, whole.mean, low, high))
    return found
