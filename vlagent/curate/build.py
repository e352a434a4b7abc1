"""Build a set for reinforcement learning: merge, leave out what fine-tuning has seen, filter by pass rate, mix, write.

    OUT/manifest.json      the published manifest form: an entry a data set, option questions apart
    OUT/<entry>.jsonl      rows: `prompt`, `image`, `reward_model`, cached image search
    OUT/pictures/          with `copy_pictures`: the set can be moved
    OUT/README.md  card.json  plots/

The RL set of SenseNova-MARS (arXiv 2512.24330) is FVQA-train without its fine-tuning questions, DeepEyes-4K and
VisualProbe; the mixes of its table 4 (search, perception, hybrid) are shares here.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from vlagent.bench.columns import only_where, unknown_column
from vlagent.bench.runs import read_samples
from vlagent.bench.suites import data_folder, load_target
from vlagent.curate.build_mix import mix
from vlagent.curate.build_rows import MANIFEST, PICTURES, write_manifest
from vlagent.curate.card import Card, card_of, rate_of, write_card
from vlagent.curate.filling import filling, leftovers
from vlagent.data.manifest import load_samples
from vlagent.data.overlap import Pictures, Print, answer_keys, fingerprint, plain_key
from vlagent.data.rows import with_unique_ids
from vlagent.data.sealed import refuse_canaries
from vlagent.errors import UserError
from vlagent.types import ImageRef, Record, Sample

OURS = (MANIFEST, PICTURES, "plots", "*.jsonl", "README.md", "card.json")
Same = Literal["question", "picture"]


class BuildOptions(Record):
    """What the set is made of."""

    data: tuple[str, ...] = Field(min_length=1)
    """As `load_samples` takes it: manifests, entries of one, rows."""
    without: tuple[str, ...] = ()
    """Run folders, data or suites whose questions must not be in it: what is fine-tuned on, and what is tested on."""
    same: Same = "question"
    """What counts as the same: one question about one picture, or any question about one picture."""
    low: float = Field(default=0.0, ge=0, le=1)
    """The lowest pass rate that is kept; above 0 leaves out what was never solved."""
    high: float = Field(default=1.0, ge=0, le=1)
    """The highest; below 1 leaves out what was always solved."""
    unmeasured: Literal["drop", "keep"] = "drop"
    """What happens to questions without a pass rate, where pass rates are given."""
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Only questions whose kind, category, ... is one of these."""
    shares: dict[str, float] = Field(default_factory=dict)
    """Data set -> its share of the questions; empty takes all that there are."""
    size: int | None = Field(default=None, ge=1)
    """Questions; without it as many as the shares allow."""
    seed: int = 0
    decode: bool = True
    """Compare pictures by what they show; without it by their bytes only."""
    copy_pictures: bool = False
    name: str = "rl"
    licences: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low} is above high {self.high}")
        if wrong := next((each for each in self.shares.items() if not 0 < each[1] < math.inf), None):
            raise ValueError(f"--mix {wrong[0]}={wrong[1]:g}: a share is above 0, and finite")
        return self


@dataclass
class Built:
    """The questions of a set, and why others are not in it."""

    samples: list[Sample]
    left_out: Counter[str] = field(default_factory=Counter)


def build(out: Path, options: BuildOptions, rates: Mapping[str, float] | None = None) -> Card:
    """Choose the questions and write the set to an empty folder; the card that lies there too is returned.

    Raises `UserError` where data cannot be read, nothing is left, or a share cannot be filled.
    """
    left = leftovers(out, OURS)
    built = choose(options, rates)
    with filling(out, left):
        write_manifest(out, built.samples, copy=options.copy_pictures)
        items = [(sample, None, None) for sample in built.samples]
        card = card_of(items, options.name, options.licences, rates)
        card = card.model_copy(update={"left_out": dict(built.left_out)})
        write_card(out, card)
    return card


def choose(options: BuildOptions, rates: Mapping[str, float] | None = None) -> Built:
    """The questions of a set, in the order of the data. Raises `UserError` like `build`."""
    read = [sample for spec in options.data for sample in load_samples(spec, seed=options.seed)]
    refuse_canaries(read, ", ".join(options.data))
    built = Built(with_unique_ids(read))
    _keep_where(built, options.where)
    look = _Look(options)
    _drop_duplicates(built, look)
    for spec in options.without:
        _drop_known(built, _questions_of(spec), spec, look)
    _keep_rates(built, options, rates)
    if not built.samples:
        raise UserError(f"no question is left ({_said(built.left_out)})")
    kept = mix(built.samples, options.shares, options.size, options.seed)
    if len(kept) < len(built.samples):
        built.left_out["more than the mix takes"] += len(built.samples) - len(kept)
    return Built(kept, built.left_out)


def _said(left_out: Mapping[str, int]) -> str:
    return ", ".join(f"{reason}: {count}" for reason, count in left_out.items())


def _questions_of(spec: str) -> list[Sample]:
    """The questions of a run folder, of data, or of suites."""
    path = Path(spec)
    return read_samples(path) if (path / "samples.jsonl").is_file() else load_target(spec, data_folder(None))


def _keep_where(built: Built, where: Mapping[str, tuple[str, ...]]) -> None:
    if wrong := unknown_column(built.samples, where):
        raise UserError(f"--where {wrong[0]}: no such column; there are {wrong[1]}")
    _count(built, only_where(built.samples, where), "not asked for")


def _count(built: Built, kept: list[Sample], reason: str) -> None:
    if len(kept) < len(built.samples):
        built.left_out[reason] += len(built.samples) - len(kept)
    built.samples = kept


class _Look:
    """Knows pictures by what they show, each looked at once."""

    def __init__(self, options: BuildOptions) -> None:
        self._decode = options.decode
        self.same = options.same
        self._prints: dict[str, Print] = {}

    def at(self, ref: ImageRef) -> Print:
        if ref.path not in self._prints:
            self._prints[ref.path] = fingerprint(ref, decode=self._decode)
        return self._prints[ref.path]


class _Known:
    """Questions that a set must not hold."""

    def __init__(self, look: _Look) -> None:
        self._look = look
        self._pictures = Pictures()
        self._asked: dict[str, str] = {}
        self._texts: dict[str, list[frozenset[str]]] = {}

    def add(self, sample: Sample) -> None:
        self._asked[sample.id] = plain_key(sample.question)
        for ref in sample.images:
            self._pictures.add(sample.id, ref, self._look.at(ref))
        if not sample.images:
            self._texts.setdefault(plain_key(sample.question), []).append(answer_keys(sample.answers))

    def holds(self, sample: Sample, same: Same) -> bool:
        """Whether it holds the question; of questions without a picture one with a common answer."""
        question = plain_key(sample.question)
        if not sample.images:
            own = answer_keys(sample.answers)
            return any(own & other or own == other for other in self._texts.get(question, ()))
        shown = [set(self._pictures.same_look(ref, self._look.at(ref))) for ref in sample.images]
        if same == "picture":
            return any(shown)
        return any(self._asked[name] == question for name in set.intersection(*shown))


def _drop_duplicates(built: Built, look: _Look) -> None:
    """The same question about the same pictures, whichever data set it comes from; the first stays."""
    seen, kept = _Known(look), []
    for sample in built.samples:
        if not seen.holds(sample, "question"):
            seen.add(sample)
            kept.append(sample)
    _count(built, kept, "a duplicate")


def _drop_known(built: Built, others: Sequence[Sample], spec: str, look: _Look) -> None:
    known = _Known(look)
    for number, sample in enumerate(others):
        known.add(sample.model_copy(update={"id": str(number)}))
    _count(built, [sample for sample in built.samples if not known.holds(sample, look.same)], f"in {spec}")


def _keep_rates(built: Built, options: BuildOptions, rates: Mapping[str, float] | None) -> None:
    banded = (options.low, options.high) != (0.0, 1.0)
    if rates is None and not banded:
        return
    measured = {sample.id: rate_of(sample, rates or {}) for sample in built.samples}
    if all(rate is None for rate in measured.values()):
        raise UserError("no question has a measured pass rate; give those of this data with --pass-rates")
    if options.unmeasured == "drop":
        _count(built, [each for each in built.samples if measured[each.id] is not None], "without a pass rate")
    low, high = options.low, options.high
    kept = [each for each in built.samples if (rate := measured[each.id]) is None or low <= rate <= high]
    _count(built, kept, f"pass rate outside {low:g} to {high:g}")
