"""The size at which a model sees a picture: Qwen's published smart-resize rule, for any patch family.

Both sides become multiples of patch x merge, the area stays within limits, the aspect is kept as well as that allows
(Qwen2-VL, arXiv 2409.12191, section 2.1, and its released processor). Two things are ours: a strip longer than 200:1 is
widened to 200:1 where the published rule refuses it, and rounding never makes a strip longer or larger than allowed.
"""

from __future__ import annotations

import math
from typing import Self

from pydantic import Field, model_validator

from vlagent.types import Record

MAX_ASPECT = 200
"""Processors refuse a longer strip."""


class PixelLimits(Record):
    """How large a picture a model takes. Part of every report: the first suspect when scores differ."""

    factor: int = Field(gt=0)
    """Patch side times merge size; both sides of every picture are multiples of it."""
    min_pixels: int = Field(gt=0)
    max_pixels: int = Field(gt=0)

    @model_validator(mode="after")
    def _some_size_fits(self) -> Self:
        if self.min_pixels > self.max_pixels:
            raise ValueError(f"min_pixels {self.min_pixels} is above max_pixels {self.max_pixels}")
        if self.factor**2 > self.max_pixels:
            raise ValueError(f"max_pixels {self.max_pixels} is below one cell of {self.factor} x {self.factor}")
        return self


LIMITS: dict[str, PixelLimits] = {
    "qwen3-vl": PixelLimits(factor=32, min_pixels=65_536, max_pixels=8_294_400),
    "qwen2.5-vl": PixelLimits(factor=28, min_pixels=65_536, max_pixels=8_294_400),
    "tiny": PixelLimits(factor=16, min_pixels=4_608, max_pixels=9_216),
}


def fit(width: int, height: int, limits: PixelLimits) -> tuple[int, int]:
    """(width, height) in pixels at which a picture of that size enters the model. Both inputs are at least 1."""
    if width < 1 or height < 1:
        raise ValueError(f"a picture of {width} x {height} pixels has no size")
    wide, high = max(width, height / MAX_ASPECT), max(height, width / MAX_ASPECT)
    factor, cells = limits.factor, limits.max_pixels // limits.factor**2
    cols, rows = round(wide / factor), round(high / factor)
    if cols * rows * factor**2 > limits.max_pixels:
        beta = math.sqrt(wide * high / limits.max_pixels)
        cols, rows = max(1, math.floor(wide / beta / factor)), max(1, math.floor(high / beta / factor))
    elif cols * rows * factor**2 < limits.min_pixels:
        beta = math.sqrt(limits.min_pixels / (wide * high))
        cols, rows = math.ceil(wide * beta / factor), math.ceil(high * beta / factor)
    cols, rows = _capped(cols, rows, cells)
    return cols * factor, rows * factor


def _capped(cols: int, rows: int, cells: int) -> tuple[int, int]:
    """A strip that rounding has made too large or too long loses some of its length."""
    if cols >= rows:
        return max(1, min(cols, cells // rows, rows * MAX_ASPECT)), rows
    return cols, max(1, min(rows, cells // cols, cols * MAX_ASPECT))
