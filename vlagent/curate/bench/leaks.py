"""Whether an answer is given away: in the question, in another question about the picture, or in training data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence

from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.records import PERSON, Checked, Item, Picture
from vlagent.data.overlap import Pictures, answer_keys, fingerprint, first_of, plain_key
from vlagent.types import Sample


class Leaks:
    """Finds answers in what the model is shown, in other questions about the picture, and in training data."""

    def __init__(self, bench: Bench, train: Sequence[Sample]) -> None:
        self.bench = bench
        self.trained = _digest(f"{each.source} {each.id} {each.question} {each.answers}" for each in train)
        self.pictures = Pictures()
        self.asked: dict[str, list[Sample]] = {}
        for sample in train:
            self.asked.setdefault(plain_key(sample.question), []).append(sample)
            for ref in sample.images:
                self.pictures.add(f"{sample.source}: {sample.id}", ref, fingerprint(ref))

    def stands(self, before: Checked) -> bool:
        """Whether this call cannot better an earlier word: a person's, or a leak that a training set showed."""
        return before.by == PERSON or bool(not before.ok and not self.trained and _trained(before))

    def by(self, item: Item, everything: Sequence[Item], before: Checked | None) -> str:
        """What a question is held against: the others about its picture, and training data, of an earlier call too."""
        others = _digest(f"{each.id} {each.question}" for each in _beside(item, everything))
        return f"{others}/{self.trained or _trained(before)}"

    def why(self, item: Item, picture: Picture, everything: Sequence[Item]) -> str:
        """How an answer is given away; empty where none is."""
        asked = f" {plain_key(item.question)} "
        keys = [key for key in answer_keys(item.answers) if key]
        if any(f" {key} " in asked for key in keys):
            return "an answer stands in the question"
        for other in _beside(item, everything):
            if any(f" {key} " in f" {plain_key(other.question)} " for key in keys):
                return f"an answer stands in {other.id}, about the same picture"
        return self._in_training(item, picture, frozenset(keys))

    def _in_training(self, item: Item, picture: Picture, keys: frozenset[str]) -> str:
        same = [each for each in self.asked.get(plain_key(item.question), []) if keys & answer_keys(each.answers)]
        if same:
            return f"{first_of(each.id for each in same)} asks the same, with the same answer"
        if not self.asked:
            return ""
        ref = self.bench.ref(picture)
        shown = self.pictures.same_look(ref, fingerprint(ref))
        return f"its picture is that of {first_of(shown)}" if shown else ""


def _beside(item: Item, everything: Sequence[Item]) -> Iterator[Item]:
    """The other finished questions about its picture."""
    return (each for each in everything if each.id != item.id and each.picture == item.picture and each.state == "done")


def _trained(before: Checked | None) -> str:
    return before.by.partition("/")[2] if before else ""


def _digest(texts: Iterable[str]) -> str:
    """Empty for nothing."""
    text = "\x1f".join(texts)
    return hashlib.blake2b(text.encode(), digest_size=5).hexdigest() if text else ""
