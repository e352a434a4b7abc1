"""The rows of one split: which scene, which question, in the published row format with extra columns."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from vlagent.randomness import rng_of
from vlagent.toy.facts import RELATIONS, Facts, Relation, draw_facts
from vlagent.toy.lexicon import KINDS, LEVELS, Kind, brands_of, places_of, spelled_name
from vlagent.toy.questions import Question, ask, combine
from vlagent.toy.scene import Cast, Scene, draw_scene

SPELLED_NAMES = 64
"""Names of random letters that a split of level 3 draws for itself."""
AHEAD = 12
"""How many names are looked at for a rarer answer."""


@dataclass(frozen=True)
class Split:
    """Everything that one split is drawn from."""

    name: str
    seed: int
    level: int
    canvas: int
    brands: tuple[str, ...]
    places: tuple[str, ...]
    facts: Facts


@dataclass(frozen=True)
class Slot:
    """Which names one row is about, chosen so that no answer of its kind is frequent."""

    kind: Kind
    number: int
    brand: str
    place: str
    subject: str
    relation: Relation

    @property
    def stem(self) -> str:
        return f"{self.kind}-{self.number:04d}"


def make_split(name: str, seed: int, level: int, canvas: int) -> Split:
    """Draw a split's names and facts."""
    brands, places = brands_of(name), places_of(name, seed)
    if LEVELS[level].spelled:
        rng = rng_of("names", seed, name)
        brands = tuple(dict.fromkeys(spelled_name(rng) for _ in range(SPELLED_NAMES)))
    return Split(name, seed, level, canvas, brands, places, draw_facts(rng_of("facts", seed, name), brands, places))


def slots(split: Split, per_kind: int) -> Iterator[Slot]:
    """The rows to make, kinds in turn."""
    columns = [_column(split, kind, per_kind) for kind in KINDS]
    for together in zip(*columns, strict=True):
        yield from together


def scene_of(split: Split, slot: Slot) -> Scene:
    """Draw the scene of one row; the first sign is the one to read."""
    cast = Cast(split.brands, slot.brand, (slot.place,), split.seed)
    return draw_scene(rng_of("scene", split.seed, split.name, slot.stem), split.level, split.canvas, cast)


def row_of(split: Split, slot: Slot, scene: Scene) -> dict[str, Any]:
    """One line of rows.jsonl. Boxes are pixels of the scene; `steps` are the fewest calls that surely find the answer.

    (One text search for two facts at once finds both of them only now and then.)
    """
    question = ask(slot.kind, split.facts, scene, slot.subject, slot.relation)
    return {
        "id": f"toy-{split.name}-{slot.stem}",
        "prompt": [{"role": "user", "content": f"<image>\n{question.text}"}],
        "image": f"scenes/{slot.stem}.png",
        "reward_model": {"ground_truth": question.answer},
        "kind": slot.kind,
        "difficulty": question.difficulty,
        "category": f"level {split.level}",
        "min_calls": len(question.steps),
        "gold_boxes": [list(question.sign_box)] if question.sign_box else [],
        "gold": _gold(question, scene),
        "scene_hash": hashlib.sha256(scene.image.tobytes()).hexdigest()[:32],
    }


def _gold(question: Question, scene: Scene) -> dict[str, Any]:
    """What a scripted policy may know: where to look and what the question turns on."""
    return {
        "level": scene.level,
        "canvas": scene.canvas,
        "relation": question.relation,
        "form": question.form,
        "subject": question.subject,
        "place": question.place,
        "brand": question.brand,
        "colour": question.colour,
        "letter_size": scene.signs[0].letter_size,
        "steps": [step.model_dump() for step in question.steps],
    }


def _column(split: Split, kind: Kind, count: int) -> Iterator[Slot]:
    """The rows of one kind. Where chance would repeat an answer, the next names are searched for a rarer one."""
    rng = rng_of("slots", split.seed, split.name, kind)
    brands, places = _cycle(rng, split.brands, count + AHEAD), _cycle(rng, split.places, count + AHEAD)
    relations = [name for name in RELATIONS if name in LEVELS[split.level].relations]
    used: Counter[str] = Counter()
    for i in range(count):
        brand, relation = brands[i], relations[i // 2 % len(relations)]

        def answer(name: str, relation: Relation = relation, brand: str = brand) -> str:
            if kind == "both":
                return combine(split.facts.year(brand), split.facts.year(name), "difference")
            return split.facts.value(name, relation)

        subject = brand
        if kind == "both":
            subject = _take_rarest(places, i, answer, used)
        elif kind == "fact":
            subject = _take_rarest(brands if i % 2 else places, i, answer, used)
        yield Slot(kind, i, brand, places[i], subject, relation)


def _cycle(rng: random.Random, names: Sequence[str], count: int) -> list[str]:
    """Every name as often as the others, shuffled."""
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(list(names), len(names))
    return drawn[:count]


def _take_rarest(names: list[str], at: int, answer: Callable[[str], str], used: Counter[str]) -> str:
    """Swap to position `at` the name, among the next few, whose answer has been used least."""
    best = min(range(at, at + AHEAD), key=lambda i: used[answer(names[i])])
    names[at], names[best] = names[best], names[at]
    used[answer(names[at])] += 1
    return names[at]
