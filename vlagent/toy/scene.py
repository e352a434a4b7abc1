"""Scenes: a place's building under some sky, clutter, and one or three signs. Pure functions of a generator.

A scene is planned in units of a 640-pixel canvas and painted at any size: at 3840 it is the same scene, drawn finer.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from vlagent.toy.landmark import landmark
from vlagent.toy.lexicon import BRANDS, COLOURS, LEVELS, PLACES, Level, spelled_name
from vlagent.toy.shapes import Colour, Matrix, Shape, disc, moved, paint, polygon, rectangle
from vlagent.toy.signs import FloatBox, Sign, SignPlan, draw_sign, plan_sign

UNIT = 640
"""Units of a canvas side."""


@dataclass(frozen=True)
class Cast:
    """Who may appear in a scene."""

    brands: Sequence[str] | None = None
    """None: the shared lexicon, or at level 3 six random letters a sign."""
    lead: str | None = None
    """The name on the first sign; None draws it like the others."""
    places: Sequence[str] = PLACES
    seed: int = 0
    """Of the buildings: the same place under the same seed is the same building."""


@dataclass(frozen=True, eq=False)
class ScenePlan:
    """A scene before it is painted."""

    level: int
    place: str
    shapes: list[Shape]
    signs: tuple[SignPlan, ...]


@dataclass(frozen=True, eq=False)
class Scene:
    """A painted scene."""

    image: Image.Image
    level: int
    place: str
    signs: tuple[Sign, ...]

    @property
    def canvas(self) -> int:
        return self.image.width


def draw_scene(rng: random.Random, level: int = 2, canvas: int = UNIT, cast: Cast | None = None) -> Scene:
    """Draw one scene; the same generator state gives the same bytes."""
    return paint_scene(plan_scene(rng, level, cast or Cast()), canvas)


def plan_scene(rng: random.Random, level: int, cast: Cast) -> ScenePlan:
    """Choose everything that a scene shows."""
    rules, place = LEVELS[level], rng.choice(cast.places)
    horizon = rng.uniform(330, 470)
    shapes = backdrop(rng, level, horizon)
    gain, lift = rng.uniform(0.85, 1.1), rng.uniform(-8, 12)
    shapes += moved(landmark(place, cast.seed), standing(rng, horizon), gain, lift)
    signs = plan_signs(rng, rules, cast)
    shapes += [_post(sign.box, horizon) for sign in signs]
    return ScenePlan(level, place, shapes, signs)


def plan_signs(rng: random.Random, rules: Level, cast: Cast) -> tuple[SignPlan, ...]:
    """Choose the signs of a scene alone: where they are, their colours and their names."""
    boxes = _sign_boxes(rng, rules)
    colours = rng.sample(list(COLOURS), rules.signs)
    names = _names(rng, rules, cast)
    return tuple(plan_sign(rng, rules, *parts) for parts in zip(boxes, colours, names, strict=True))


def paint_scene(plan: ScenePlan, canvas: int) -> Scene:
    """Paint a planned scene on a square canvas of that many pixels a side."""
    scale = canvas / UNIT
    image = Image.new("RGB", (canvas, canvas))
    paint(ImageDraw.Draw(image), plan.shapes, scale)
    signs = []
    for planned in plan.signs:
        panel, sign = draw_sign(planned, scale)
        image.paste(panel, sign.box[:2])
        signs.append(sign)
    return Scene(image, plan.level, plan.place, tuple(signs))


def backdrop(rng: random.Random, level: int, horizon: float) -> list[Shape]:
    """Sky, ground and clutter, without building or signs."""
    return [*_ground(rng, horizon), *_clutter(rng, LEVELS[level], horizon)]


def standing(rng: random.Random, horizon: float) -> Matrix:
    """Where a building stands and from where it is seen: unit square -> canvas units."""
    width = rng.uniform(370, 450)
    height = width * rng.uniform(0.85, 0.89)
    left, base = rng.uniform(20, UNIT - width - 20), horizon + rng.uniform(40, 100)
    shear, tilt = rng.uniform(-0.03, 0.03), rng.uniform(-0.06, 0.06)
    place = np.array([[width, 0, left], [0, height, base - height], [0, 0, 1]])
    view = np.array([[1, shear, -shear], [shear / 2, 1, 0], [tilt, 0, 1 - tilt / 2]])
    matrix: Matrix = place @ view
    return matrix


def _names(rng: random.Random, rules: Level, cast: Cast) -> list[str]:
    brands = cast.brands
    if brands is None:
        brands = [spelled_name(rng) for _ in range(rules.signs)] if rules.spelled else BRANDS
    if cast.lead is None:
        return rng.sample(list(brands), rules.signs)
    return [cast.lead, *rng.sample([name for name in brands if name != cast.lead], rules.signs - 1)]


def _tone(rng: random.Random, low: int, high: int, spread: int) -> Colour:
    base = rng.randint(low, high)
    red, green, blue = (base + rng.randint(-spread, spread) for _ in range(3))
    return red, green, blue


def _ground(rng: random.Random, horizon: float) -> list[Shape]:
    """Sky in bands, clouds, far hills, ground with patches."""
    top, low = _tone(rng, 150, 205, 14), _tone(rng, 175, 230, 10)
    shapes = []
    for i in range(8):
        red, green, blue = (round(a + (b - a) * i / 7) for a, b in zip(top, low, strict=True))
        shapes.append(rectangle(0, i * horizon / 8, UNIT, (i + 1) * horizon / 8 + 1, (red, green, blue)))
    for _ in range(rng.randint(1, 4)):
        x, y, size = rng.uniform(0, UNIT), rng.uniform(20, horizon * 0.6), rng.uniform(25, 60)
        fill = _tone(rng, 215, 240, 6)
        shapes += [disc(x + dx * size, y, size, size * 0.35, fill) for dx in (-0.7, 0, 0.8)]
    ridge = [(x, horizon - rng.uniform(5, 70)) for x in range(0, UNIT + 1, 80)]
    shapes.append(polygon([(0, horizon), *ridge, (UNIT, horizon)], _tone(rng, 120, 170, 10)))
    shapes.append(rectangle(0, horizon, UNIT, UNIT, _tone(rng, 105, 180, 12)))
    for _ in range(rng.randint(3, 7)):
        x, y = rng.uniform(0, UNIT), rng.uniform(horizon + 30, UNIT)
        shapes.append(disc(x, y, rng.uniform(20, 90), rng.uniform(5, 18), _tone(rng, 100, 185, 10)))
    return shapes


def _clutter(rng: random.Random, rules: Level, horizon: float) -> list[Shape]:
    """Boxes, trees and blank boards around the building."""
    shapes: list[Shape] = []
    for _ in range(rng.randint(*rules.clutter)):
        x, y = rng.uniform(0, UNIT), rng.uniform(horizon - 60, UNIT)
        width, height = rng.uniform(30, 110), rng.uniform(30, 130)
        fill = _tone(rng, 95, 205, 10)
        form = rng.randrange(3)
        if form == 0:
            shapes += [rectangle(x, y - height, x + width, y, fill), rectangle(x, y - 8, x + width, y, (90, 90, 90))]
        elif form == 1:
            trunk = rectangle(x - 4, y - height, x + 4, y, (100, 92, 84))
            shapes += [trunk, disc(x, y - height, width / 2, height / 2.4, fill)]
        else:
            shapes.append(polygon([(x, y), (x + width / 2, y - height), (x + width, y)], fill))
    return shapes


def _sign_boxes(rng: random.Random, rules: Level) -> list[FloatBox]:
    """Boxes far enough apart for a crop window to hold one name; starts over when it runs out of room."""
    while True:
        boxes: list[FloatBox] = []
        for _ in range(200):
            width, height = rng.randint(*rules.sign_width), rng.randint(*rules.sign_height)
            x, y = rng.randint(6, UNIT - width - 6), rng.randint(6, UNIT - height - 6)
            box = (float(x), float(y), float(x + width), float(y + height))
            if all(_apart(box, other) for other in boxes):
                boxes.append(box)
            if len(boxes) == rules.signs:
                return boxes


def _apart(a: FloatBox, b: FloatBox) -> bool:
    across = abs(a[0] + a[2] - b[0] - b[2]) / 2
    down = abs(a[1] + a[3] - b[1] - b[3]) / 2
    return across > 0.33 * UNIT or down > 0.18 * UNIT


def _post(box: FloatBox, horizon: float) -> Shape:
    x = (box[0] + box[2]) / 2
    return rectangle(x - 4, box[3] - 4, x + 4, max(horizon + 60, box[3] + 30), (112, 112, 112))
