"""Signs: a vivid panel with a brand's name that a crop shows and a small view of the whole scene does not.

The lettering is lighter than its panel and outlined darker by as much, and the panel is blotched: averaged over a few
letter strokes the name vanishes, at the scale of a crop it stands out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from vlagent.toy.lexicon import COLOURS, Level, font
from vlagent.types import Box

FloatBox = tuple[float, float, float, float]

CONTRAST = 62
"""How much lighter than the panel the letters are, of 255."""
OUTLINE = 0.046
"""Width of the dark outline as a part of the letter size."""
BLOTCH = 13
"""Largest brightness of a panel's blotches, of 255."""


@dataclass(frozen=True)
class SignPlan:
    """One sign before it is drawn; lengths in units of a 640-pixel canvas."""

    colour: str
    name: str
    box: FloatBox
    letter_size: float
    seed: int
    """Of the blotches."""


@dataclass(frozen=True)
class Sign:
    """One drawn sign; boxes in pixels of the canvas."""

    colour: str
    name: str
    box: Box
    text_box: Box
    letters: tuple[tuple[str, FloatBox], ...]
    """Each letter of the name and where it stands."""
    letter_size: float


def plan_sign(rng: random.Random, level: Level, box: FloatBox, colour: str, name: str) -> SignPlan:
    """Choose a letter size that fits the panel."""
    size = rng.randint(*level.letter_size)
    while font(size).getlength(name) > box[2] - box[0] - 14 * level.sign_width[1] / 166:
        size -= 1
    return SignPlan(colour, name, box, size, rng.getrandbits(32))


def draw_sign(plan: SignPlan, scale: float) -> tuple[Image.Image, Sign]:
    """The panel's picture, and where everything on it is on the canvas."""
    sign = place_sign(plan, scale)
    x1, y1, x2, y2 = sign.box
    return draw_panel(plan, (x2 - x1, y2 - y1), scale), sign


def place_sign(plan: SignPlan, scale: float) -> Sign:
    """Where everything on a sign is on the canvas, without drawing it."""
    x1, y1, x2, y2 = (round(value * scale) for value in plan.box)
    size = plan.letter_size * scale
    width, centre_x, centre_y = font(size).getlength(plan.name), (x1 + x2) / 2, (y1 + y2) / 2
    edges = [centre_x - width / 2 + font(size).getlength(plan.name[:i]) for i in range(len(plan.name) + 1)]
    top, bottom = centre_y - size * 0.36, centre_y + size * 0.36
    letters = tuple((c, (edges[i], top, edges[i + 1], bottom)) for i, c in enumerate(plan.name))
    text_box = (int(edges[0]), int(top), int(edges[-1]) + 1, int(bottom) + 1)
    return Sign(plan.colour, plan.name, (x1, y1, x2, y2), text_box, letters, plan.letter_size)


def draw_panel(plan: SignPlan, size: tuple[int, int], scale: float, *, blotched: bool = True) -> Image.Image:
    """The panel alone, `size` pixels wide and high."""
    panel = _blotched(plan, size) if blotched else Image.new("RGB", size, COLOURS[plan.colour])
    draw = ImageDraw.Draw(panel)
    edge = max(1, round(3 * scale * min(1.0, (plan.box[2] - plan.box[0]) / 142)))
    draw.rectangle((0, 0, size[0] - 1, size[1] - 1), outline=(245, 245, 245), width=edge)
    colour = np.array(COLOURS[plan.colour])
    light, dark = (tuple(int(c) for c in np.clip(colour + change, 0, 255)) for change in (CONTRAST, -CONTRAST))
    letters = plan.letter_size * scale
    draw.text(
        (size[0] / 2, size[1] / 2),
        plan.name,
        font=font(letters),
        anchor="mm",
        fill=light,
        stroke_width=letters * OUTLINE,
        stroke_fill=dark,
    )
    return panel


def _blotched(plan: SignPlan, size: tuple[int, int]) -> Image.Image:
    rng = random.Random(plan.seed)
    columns, rows = 21, 10
    cells = [128 + rng.uniform(-BLOTCH, BLOTCH) for _ in range(columns * rows)]
    coarse = Image.fromarray(np.array(cells).reshape(rows, columns).round().astype(np.uint8))
    blotches = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.int16)[:, :, None] - 128
    return Image.fromarray(np.clip(np.array(COLOURS[plan.colour]) + blotches, 0, 255).astype(np.uint8))
