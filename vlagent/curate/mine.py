"""Hard questions: those that a base model gets right in at most one of eight tries (arXiv 2512.24330, section 4).

The rollouts are an evaluation of k episodes a question, with its folder, its resumption and its budget. What is added
here: `pass_rates.jsonl` in the form that the curriculum of reinforcement learning reads, and `hard/`, a set in the
published manifest form of the questions that are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field

from vlagent.bench.config import EvalConfig, read_config
from vlagent.bench.evaluate import slices_of
from vlagent.bench.pass_rates import right_by_question
from vlagent.bench.runs import read_rows, read_samples
from vlagent.curate.build_rows import write_manifest
from vlagent.curate.synthesise import SETTINGS
from vlagent.curate.verify import FINDINGS
from vlagent.errors import UserError
from vlagent.files import write_json, write_records
from vlagent.types import EvalRow, Record, Sample

PASS_RATES = "pass_rates.jsonl"
HARD = "hard"
"""Folder of the set that is kept."""
ROLLOUTS = 8
MOST_RIGHT = 1


class PassRate(Record):
    """How one question went."""

    sample_id: str
    pass_rate: float
    """Right over scored."""
    right: int
    scored: int
    """Episodes that count as right or wrong; failed and unscored ones do not."""
    planned: int

    def hard(self, most_right: int) -> bool | None:
        """Whether at most `most_right` are right; None where episodes that failed could still decide it."""
        if self.right > most_right:
            return False
        return True if self.right + self.planned - self.scored <= most_right else None


class Mined(Record):
    """What mining found; `mined.json` in the run folder."""

    version: int = 1
    model: str | None
    k: int
    most_right: int
    questions: int
    hard: int
    undecided: int
    """Too many of their episodes failed, or were not played yet; the same command plays these."""
    spread: dict[str, int] = Field(default_factory=dict)
    """Right episodes -> questions with so many, of those that have a scored one."""
    kinds: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Kind -> questions and hard ones, where the data tells kinds apart."""


def pass_rates_of(rows: Iterable[EvalRow], samples: Sequence[Sample], k: int) -> list[PassRate]:
    """The pass rate of each question that has a scored episode, in the order of the samples."""
    found = right_by_question(rows)
    return [
        PassRate(sample_id=name, pass_rate=sum(own) / len(own), right=sum(own), scored=len(own), planned=k)
        for name, own in ((sample.id, found.get(sample.id, [])) for sample in samples)
        if own
    ]


def check_before(run: Path, config: EvalConfig, samples: Sequence[Sample], most_right: int) -> None:
    """Before anything is asked: raises `UserError` for the folder of another verb, or too few rollouts."""
    for name, verb in ((SETTINGS, "synthesise"), (FINDINGS, "verify")):
        if (run / name).exists():
            raise UserError(f"{run}: holds a run of `curate {verb}`; choose another --run")
    _check_rollouts([config.rollouts_of(sample.source) for sample in samples], most_right)


def _check_rollouts(rollouts: Sequence[int], most_right: int) -> None:
    if min(rollouts) <= most_right:
        raise UserError(f"--most-right {most_right}: with {min(rollouts)} rollouts every question is kept; raise --k")


def keep_hard(run: Path, most_right: int = MOST_RIGHT) -> Mined:
    """Write pass rates and the hard set of an evaluation with several rollouts a question.

    Raises `UserError` where the folder is no evaluation, has fewer rollouts than `most_right` can tell apart, or holds
    no scored episode.
    """
    config, samples = read_config(run), read_samples(run)
    rollouts = {sample.source: config.rollouts_of(sample.source) for sample in samples}
    _check_rollouts(list(rollouts.values()), most_right)
    rows = read_rows(run).values()
    rates: list[PassRate] = []
    for source, k in rollouts.items():
        rates += pass_rates_of(rows, [sample for sample in samples if sample.source == source], k)
    if not rates:
        raise UserError(f"{run}: no episode is scored yet; run it to its end first")
    write_records(run / PASS_RATES, rates)
    verdicts = {rate.sample_id: rate.hard(most_right) for rate in rates}
    by_id = {rate.sample_id: rate for rate in rates}
    kept = [_with_rate(sample, by_id[sample.id]) for sample in samples if verdicts.get(sample.id)]
    write_manifest(run / HARD, kept)
    mined = Mined(
        model=config.model,
        k=config.k,
        most_right=most_right,
        questions=len(samples),
        hard=len(kept),
        undecided=sum(verdicts.get(sample.id) is None for sample in samples),
        spread=_spread(rates),
        kinds=_kinds(samples, verdicts),
    )
    write_json(run / "mined.json", mined)
    return mined


def _with_rate(sample: Sample, rate: PassRate) -> Sample:
    return sample.model_copy(update={"extra": {**sample.extra, "pass_rate": rate.pass_rate}})


def _spread(rates: Sequence[PassRate]) -> dict[str, int]:
    counts = dict.fromkeys(range(max(rate.planned for rate in rates) + 1), 0)
    for rate in rates:
        counts[rate.right] += 1
    return {str(number): count for number, count in counts.items()}


def _kinds(samples: Sequence[Sample], verdicts: dict[str, bool | None]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = {}
    for sample in samples:
        name = slices_of(sample).get("kind")
        if name is not None:
            own = kinds.setdefault(name, {"questions": 0, "hard": 0})
            own["questions"] += 1
            own["hard"] += bool(verdicts.get(sample.id))
    return kinds


def describe(mined: Mined) -> str:
    """A few lines for a person."""
    spread = "  ".join(f"{right}: {count}" for right, count in mined.spread.items())
    lines = [
        f"{mined.hard} of {mined.questions} questions are hard (at most {mined.most_right} of {mined.k} right)",
        f"right of {mined.k}, and questions with so many:  {spread}",
    ]
    lines += [f"  {kind}: {own['hard']} of {own['questions']} hard" for kind, own in mined.kinds.items()]
    if mined.undecided:
        lines.append(f"{mined.undecided} undecided: their episodes failed or were not played; the same command goes on")
    return "\n".join(lines)
