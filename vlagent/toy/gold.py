"""What a scripted policy knows of a row beforehand: where to look, never what is there."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vlagent.errors import UserError
from vlagent.toy.facts import Relation, possible_values
from vlagent.toy.lexicon import BRANDS, OPEN_BRANDS, YEARS, Kind
from vlagent.toy.questions import Form, combine
from vlagent.types import Box, Sample


@dataclass(frozen=True)
class Gold:
    """The extra columns of one row."""

    kind: Kind
    answer: str
    relation: Relation
    form: Form | None
    subject: str | None
    needs_place: bool
    colour: str | None
    sign_box: Box | None
    """Pixels of the scene."""
    canvas: int
    letter_size: float
    crop: tuple[float, float, float, float] | None
    """Thousandths; shows the sign well."""


def gold_of(sample: Sample) -> Gold:
    """Raises `UserError` for a sample that is no row of a toy world."""
    columns = sample.extra
    gold = columns.get("gold")
    if not isinstance(gold, dict) or "kind" not in columns:
        raise UserError(f"{sample.id}: not a row of a toy world; the toy policies answer nothing else")
    crops = [step["arguments"]["bbox"] for step in gold["steps"] if step["name"] == "image_crop"]
    boxes = columns["gold_boxes"]
    return Gold(
        kind=columns["kind"],
        answer=sample.answers[0],
        relation=gold["relation"],
        form=gold["form"],
        subject=gold["subject"],
        needs_place=gold["place"] is not None,
        colour=gold["colour"],
        sign_box=tuple(boxes[0]) if boxes else None,
        canvas=gold["canvas"],
        letter_size=gold["letter_size"],
        crop=tuple(crops[0]) if crops else None,
    )


def names_in(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Every name that a sign may bear: the lexicon, and the names of these rows (level 3 draws its own)."""
    own = (brand_of(sample) for sample in samples)
    return tuple(dict.fromkeys([*BRANDS, *OPEN_BRANDS, *(name for name in own if name)]))


def brand_of(sample: Sample) -> str | None:
    """The name on the sign that the question asks about."""
    gold: dict[str, Any] = sample.extra.get("gold") or {}
    return gold.get("brand")


def guess(rng: random.Random, gold: Gold, names: tuple[str, ...]) -> str:
    """An answer of the right sort, drawn blindly."""
    if gold.kind == "read":
        return rng.choice(names)
    if gold.kind == "both":
        return combine(rng.choice(YEARS), rng.choice(YEARS), gold.form or "difference")
    return rng.choice(possible_values(gold.relation))
