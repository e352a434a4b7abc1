"""Questions about a scene, their answers, and the fewest calls that find them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vlagent.toy.facts import Facts, Relation, entity_type, search_words
from vlagent.toy.lexicon import LEVELS, Kind
from vlagent.toy.scene import Scene
from vlagent.toy.signs import Sign
from vlagent.types import Box, Call

Form = Literal["difference", "earlier"]
"""What `both` asks for. `difference` is the default: to know one of the two years does not help to guess it, whereas it
is the earlier one every other time."""

_ASK = {
    ("brand", "year"): "When was {} founded?",
    ("place", "year"): "When was {} opened?",
    ("brand", "city"): "In which city is {} based?",
    ("place", "city"): "In which city does {} stand?",
    ("brand", "owner"): "Who owns {}?",
    ("place", "owner"): "Who owns {}?",
}
_BOTH = {
    "difference": "How many years lie between the founding of the brand on the {} sign and the opening of the place "
    "in the photo?",
    "earlier": "Which year came first: that of the founding of the brand on the {} sign, or that of the opening of the "
    "place in the photo?",
}


@dataclass(frozen=True)
class Question:
    """A question, its answer, and how it is found."""

    kind: Kind
    text: str
    answer: str
    relation: Relation = "year"
    form: Form | None = None
    """Of a `both` question."""
    subject: str | None = None
    """The name that a `fact` question gives away."""
    place: str | None = None
    """To be found by image search."""
    brand: str | None = None
    """To be read from a sign."""
    colour: str | None = None
    sign_box: Box | None = None
    """Pixels of the scene."""
    steps: tuple[Call, ...] = ()
    """The fewest calls, in canonical form, that surely find the answer."""

    @property
    def difficulty(self) -> Literal["easy", "hard"]:
        return "easy" if len(self.steps) == 1 else "hard"


def window(box: Box, canvas: int, level: int) -> tuple[int, int, int, int]:
    """The crop that shows a sign well, on the level's grid, in thousandths of the canvas."""
    rules = LEVELS[level]
    starts = []
    for low, high, size in ((box[0], box[2], rules.window[0]), (box[1], box[3], rules.window[1])):
        centre = (low + high) * 500 / canvas
        cell = round((centre - size / 2) / rules.step)
        starts.append(min((1000 - size) // rules.step, max(0, cell)) * rules.step)
    return starts[0], starts[1], starts[0] + rules.window[0], starts[1] + rules.window[1]


def crop_call(sign: Sign, scene: Scene) -> Call:
    """The crop of one sign."""
    box = [float(value) for value in window(sign.box, scene.canvas, scene.level)]
    return Call(name="image_crop", arguments={"bbox": box, "image_index": 0})


def text_call(name: str, relation: Relation) -> Call:
    """The text search for one fact."""
    return Call(name="text_search", arguments={"query": search_words(name, relation)})


IMAGE_CALL = Call(name="image_search", arguments={"image_index": 0})


def ask_fact(facts: Facts, subject: str, relation: Relation = "year") -> Question:
    """A question that names what it is about; no picture is needed."""
    text = _ASK[entity_type(subject), relation].format(subject)
    answer = facts.value(subject, relation)
    return Question("fact", text, answer, relation, subject=subject, steps=(text_call(subject, relation),))


def ask_place(facts: Facts, scene: Scene, relation: Relation = "year") -> Question:
    """A question about the building in the photo."""
    text = _ASK["place", relation].format("the place in the photo")
    steps = (IMAGE_CALL, text_call(scene.place, relation))
    return Question("place", text, facts.value(scene.place, relation), relation, place=scene.place, steps=steps)


def ask_read(scene: Scene, sign: Sign) -> Question:
    """A question for the name on a sign."""
    text, steps = f"What does the {sign.colour} sign say?", (crop_call(sign, scene),)
    return Question("read", text, sign.name, brand=sign.name, colour=sign.colour, sign_box=sign.box, steps=steps)


def ask_brand(facts: Facts, scene: Scene, sign: Sign, relation: Relation = "year") -> Question:
    """A question about the brand whose name is on a sign."""
    text = _ASK["brand", relation].format(f"the brand on the {sign.colour} sign")
    return Question(
        "brand",
        text,
        facts.value(sign.name, relation),
        relation,
        brand=sign.name,
        colour=sign.colour,
        sign_box=sign.box,
        steps=(crop_call(sign, scene), text_call(sign.name, relation)),
    )


def ask_both(facts: Facts, scene: Scene, sign: Sign, form: Form = "difference") -> Question:
    """A question that needs the sign, the place and both their years."""
    return Question(
        "both",
        _BOTH[form].format(sign.colour),
        combine(facts.year(sign.name), facts.year(scene.place), form),
        form=form,
        place=scene.place,
        brand=sign.name,
        colour=sign.colour,
        sign_box=sign.box,
        steps=(crop_call(sign, scene), IMAGE_CALL, text_call(sign.name, "year"), text_call(scene.place, "year")),
    )


def combine(founded: int, opened: int, form: Form) -> str:
    """The answer to a `both` question from its two years."""
    return str(abs(founded - opened) if form == "difference" else min(founded, opened))


def ask(kind: Kind, facts: Facts, scene: Scene, subject: str, relation: Relation = "year") -> Question:
    """One question of a kind: about the first sign, the place, or (`fact`) the subject named."""
    sign = scene.signs[0]
    if kind == "read":
        return ask_read(scene, sign)
    if kind == "fact":
        return ask_fact(facts, subject, relation)
    if kind == "place":
        return ask_place(facts, scene, relation)
    if kind == "brand":
        return ask_brand(facts, scene, sign, relation)
    return ask_both(facts, scene, sign)
