"""A building for every place: drawn from the place's own key, full of corners that no other building shares."""

from __future__ import annotations

import random
from collections.abc import Callable

from vlagent.randomness import rng_of
from vlagent.toy.shapes import Colour, Shape, disc, polygon, rectangle

Mass = tuple[float, float, float, float]
"""Left, top, right, bottom of one block of a building, in the unit square."""


def landmark(place: str, seed: int) -> list[Shape]:
    """The building of one place in the unit square (y down, standing on y = 1); one key, one building."""
    rng = rng_of("landmark", seed, place)
    kind = place.rsplit(" ", 1)[-1]
    wall = _grey(rng, 120, 190)
    shapes: list[Shape] = []
    for mass in _MASSES.get(kind, _hall)(rng):
        shapes += _block(rng, mass, _near(rng, wall, 12))
    return shapes


def _grey(rng: random.Random, low: int, high: int) -> Colour:
    """A dull colour: signs alone are vivid, so that colour names them."""
    base = rng.randint(low, high)
    return _near(rng, (base, base, base), 10)


def _near(rng: random.Random, colour: Colour, spread: int) -> Colour:
    red, green, blue = (min(255, max(0, c + rng.randint(-spread, spread))) for c in colour)
    return red, green, blue


def _tower(rng: random.Random) -> list[Mass]:
    waist, top = rng.uniform(0.28, 0.4), rng.uniform(0.12, 0.2)
    return [
        (0.5 - top, 0.0, 0.5 + top, 0.4),
        (0.5 - waist, 0.32, 0.5 + waist, 0.75),
        (0.02, 0.7, 0.98, 1.0),
    ]


def _hall(rng: random.Random) -> list[Mass]:
    left, right, rise = rng.uniform(0.22, 0.36), rng.uniform(0.64, 0.78), rng.uniform(0.3, 0.5)
    return [(0.0, rise, left, 1.0), (right, rise + rng.uniform(-0.1, 0.1), 1.0, 1.0), (left, 0.1, right, 1.0)]


def _bridge(rng: random.Random) -> list[Mass]:
    deck, pier = rng.uniform(0.45, 0.6), rng.uniform(0.16, 0.24)
    return [
        (0.0, deck, 1.0, deck + 0.3),
        (0.08, 0.05, 0.08 + pier, 1.0),
        (0.92 - pier, rng.uniform(0.02, 0.2), 0.92, 1.0),
    ]


def _stands(rng: random.Random) -> list[Mass]:
    step = rng.uniform(0.08, 0.14)
    return [(0.0, 0.45, 1.0, 1.0), (step, 0.25, 1 - step, 0.55), (0.4, 0.05, 0.4 + 2 * step, 0.35)]


def _keep(rng: random.Random) -> list[Mass]:
    side = rng.uniform(0.2, 0.28)
    return [(side - 0.05, 0.4, 1.05 - side, 1.0), (0.0, 0.1, side, 1.0), (1 - side, rng.uniform(0.0, 0.2), 1.0, 1.0)]


_MASSES: dict[str, Callable[[random.Random], list[Mass]]] = {
    "Tower": _tower,
    "Bridge": _bridge,
    "Stadium": _stands,
    "Arcade": _stands,
    "Castle": _keep,
    "Temple": _keep,
}


def _block(rng: random.Random, mass: Mass, wall: Colour) -> list[Shape]:
    """One block: its wall, its roof line and a wall full of openings."""
    x1, y1, x2, y2 = mass
    shapes = [rectangle(x1, y1, x2, y2, wall), *_roof(rng, mass, _near(rng, wall, 16))]
    columns, rows = max(2, round((x2 - x1) / 0.075)), max(2, round((y2 - y1) / 0.1))
    width, height = (x2 - x1) / columns, (y2 - y1) / rows
    for row in range(rows):
        for column in range(columns):
            if rng.random() < 0.9:
                centre = (x1 + (column + 0.5) * width, y1 + (row + 0.5) * height)
                shapes += _opening(rng, centre, (width * rng.uniform(0.28, 0.42), height * rng.uniform(0.28, 0.42)))
    return shapes


def _roof(rng: random.Random, mass: Mass, fill: Colour) -> list[Shape]:
    x1, y1, x2, _ = mass
    form = rng.randrange(4)
    if form == 0:
        return [polygon([(x1, y1), ((x1 + x2) / 2, y1 - 0.12), (x2, y1)], fill)]
    if form == 1:
        return [disc((x1 + x2) / 2, y1, (x2 - x1) / 3, 0.09, fill), rectangle(x1, y1 - 0.015, x2, y1 + 0.02, fill)]
    teeth = rng.randint(3, 6)
    width = (x2 - x1) / (2 * teeth)
    starts = [x1 + 2 * i * width for i in range(teeth)]
    if form == 2:
        return [rectangle(x, y1 - 0.05, x + width, y1 + 0.01, fill) for x in starts]
    return [polygon([(x, y1), (x + width, y1 - 0.07), (x + 2 * width, y1)], fill) for x in starts]


def _pane(x: float, y: float, w: float, h: float, fill: Colour) -> Shape:
    return rectangle(x - w, y - h, x + w, y + h, fill)


def _opening(rng: random.Random, centre: tuple[float, float], half: tuple[float, float]) -> list[Shape]:
    """A window of one of eight forms in a dark or light tone."""
    (x, y), (w, h) = centre, half
    dark = rng.random() < 0.7
    fill, other = _grey(rng, 30, 90), _grey(rng, 200, 240)
    if not dark:
        fill, other = other, fill
    form = rng.randrange(8)
    if form == 0:
        return [_pane(x, y, w, h, fill)]
    if form == 1:
        return [polygon([(x, y - h), (x + w, y), (x, y + h), (x - w, y)], fill)]
    if form == 2:
        return [disc(x, y, w, h, fill)]
    if form == 3:
        return [polygon([(x - w, y + h), (x, y - h), (x + w, y + h)], fill)]
    if form == 4:
        return [
            _pane(x, y, w, h / 3, fill),
            _pane(x, y, w / 3, h, fill),
        ]
    if form == 5:
        return [
            rectangle(x - w, y - h, x + w, y + h, fill),
            _pane(x, y, w / 2, h / 2, other),
        ]
    if form == 6:
        return [rectangle(x - w, y - h, x - w / 5, y + h, fill), rectangle(x + w / 5, y - h, x + w, y + h, fill)]
    return [polygon([(x - w, y - h), (x + w, y - h), (x, y)], fill), rectangle(x - w / 2, y, x + w / 2, y + h, fill)]
