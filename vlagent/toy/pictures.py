"""The pictures behind the image search of one split: every place from elsewhere in other light, and others."""

from __future__ import annotations

import random
from collections.abc import Sequence

from PIL import Image, ImageDraw

from vlagent.randomness import rng_of
from vlagent.toy.corpus import near_places
from vlagent.toy.landmark import landmark
from vlagent.toy.lexicon import places_of
from vlagent.toy.scene import UNIT, backdrop, standing
from vlagent.toy.shapes import moved, paint

SIZE = 512
"""Pixels a side; it does not follow the canvas of the scenes."""

STRANGERS = 16
"""Pictures of places that no split has."""


def titles(places: Sequence[str], seed: int) -> list[str]:
    """The titles of a split's pictures: the places that its scenes show, near-duplicate titles, places of no split."""
    near = [near_places(place)[i % 4] for i, place in enumerate(places) if i % 3 == 0]
    return [*places, *near, *places_of("", seed)[:STRANGERS]]


def draw_picture(title: str, seed: int, split: str) -> Image.Image:
    """The building of that title without signs, from another point of view than any scene's."""
    rng = rng_of("picture", seed, split, title)
    image = Image.new("RGB", (SIZE, SIZE))
    horizon = rng.uniform(330, 470)
    building = moved(landmark(title, seed), standing(rng, horizon), rng.uniform(0.8, 1.1), rng.uniform(-10, 15))
    paint(ImageDraw.Draw(image), [*backdrop(rng, 2, horizon), *building], SIZE / UNIT)
    return _cut(rng, image)


def _cut(rng: random.Random, image: Image.Image) -> Image.Image:
    """A photographer's crop: up to 8 % off each side."""
    left, top, right, bottom = (round(rng.uniform(0, 0.08) * SIZE) for _ in range(4))
    return image.crop((left, top, SIZE - right, SIZE - bottom))
