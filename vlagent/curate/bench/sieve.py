"""Stage 2: which of the collected pictures are worth a question."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vlagent.curate.bench.config import BenchConfig
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.measure import grey_of, sharpness, small_regions, small_words, smallest_share
from vlagent.curate.bench.records import Picture, Sieved
from vlagent.data.overlap import Pictures, fingerprint
from vlagent.files import append_jsonl, only_writer
from vlagent.types import Box, ImageRef, Sample


@dataclass(frozen=True)
class Passed:
    """What the filter did."""

    kept: int
    refused: int
    known: int
    """Pictures that were judged by the same rules before."""


def sieve(bench: Bench, *, against: Sequence[Sample] = (), tell: Callable[[int, int], None] | None = None) -> Passed:
    """Measure and judge every picture that these rules have not judged yet.

    A picture that looks like an earlier one, or like a picture of `against` (a training set), is refused. Raises
    `ServiceError` where a file cannot be read any more, `UserError` where the extra for words is missing.
    """
    with only_writer(bench.folder):
        return _Sieve(bench, against).run(tell)


class _Sieve:
    def __init__(self, bench: Bench, against: Sequence[Sample]) -> None:
        self.bench, self.config = bench, bench.config
        self.rules = _digest(self.config, against)
        self.known = Pictures()
        for sample in against:
            for ref in sample.images:
                self.known.add(f"{sample.source}: {sample.id}", ref, fingerprint(ref))

    def run(self, tell: Callable[[int, int], None] | None) -> Passed:
        before, pictures = self.bench.sieved(), self.bench.pictures()
        kept = known = 0
        for done, picture in enumerate(pictures.values(), 1):
            ref = self.bench.ref(picture)
            print_ = fingerprint(ref)
            judged = before.get(picture.id)
            if judged is None or judged.rules != self.rules:
                like = next(iter(self.known.same_look(ref, print_)), "")
                judged = self._judged(picture, ref, like)
                append_jsonl(self.bench.folder / "filter.jsonl", judged)
            else:
                known += 1
            if judged.kept:
                kept += 1
                self.known.add(picture.id, ref, print_)
            if tell:
                tell(done, len(pictures))
        return Passed(kept, len(pictures) - kept, known)

    def _judged(self, picture: Picture, ref: ImageRef, like: str) -> Sieved:
        grey = grey_of(ref)
        fine = sharpness(grey)
        boxes: list[Box]
        if self.config.filter.small_by == "ocr":
            boxes, size = small_words(ref, self.config.object_share), (ref.width, ref.height)
        else:
            boxes, size = small_regions(grey, self.config.object_share), (grey.shape[1], grey.shape[0])
        why = _why_not(picture, self.config, fine, len(boxes), like)
        return Sieved(
            id=picture.id,
            kept=not why,
            why=tuple(why),
            sharpness=round(fine, 2),
            small=len(boxes),
            smallest=smallest_share(boxes, size),
            like=like,
            rules=self.rules,
        )


def _why_not(picture: Picture, config: BenchConfig, fine: float, small: int, like: str) -> list[str]:
    rules = config.filter
    long, short = max(picture.width, picture.height), min(picture.width, picture.height)
    reasons = {
        f"{picture.width} x {picture.height}: {rules.long_side} x {rules.short_side} is needed": long < rules.long_side
        or short < rules.short_side,
        f"of {picture.date}: before {rules.after}": bool(rules.after and picture.date and picture.date < rules.after),
        f"of {picture.date}: after {rules.before}": bool(rules.before and picture.date > rules.before),
        "no date is known": rules.undated == "refuse" and bool(rules.after or rules.before) and not picture.date,
        f"sharpness {fine:.1f}: {rules.sharpness:g} is needed": fine < rules.sharpness,
        f"{small} small things: {rules.small} are needed": small < rules.small,
        f"looks like {like}": bool(like),
    }
    return [reason for reason, holds in reasons.items() if holds]


def _digest(config: BenchConfig, against: Sequence[Sample]) -> str:
    """Other rules, or another set to hold it against, are another verdict."""
    parts = [config.filter.model_dump_json(), str(config.object_share)]
    parts += [ref.path for sample in against for ref in sample.images]
    return hashlib.blake2b("\x1f".join(parts).encode(), digest_size=6).hexdigest()
