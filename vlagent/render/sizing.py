"""The size at which a model sees a picture: Qwen's published smart-resize rule, for any patch family.

Both sides become multiples of patch x merge, the area stays within limits, the aspect is kept as well as that allows.
"""

from __future__ import annotations

from pydantic import Field

from vlagent.types import Record


class PixelLimits(Record):
    """How large a picture a model takes. Part of every report: the first suspect when scores differ."""

    factor: int = Field(gt=0)
    """Patch side times merge size; both sides of every picture are multiples of it."""
    min_pixels: int = Field(gt=0)
    max_pixels: int = Field(gt=0)


LIMITS: dict[str, PixelLimits] = {
    "qwen3-vl": PixelLimits(factor=32, min_pixels=65_536, max_pixels=8_294_400),
    "qwen2.5-vl": PixelLimits(factor=28, min_pixels=65_536, max_pixels=8_294_400),
    "tiny": PixelLimits(factor=16, min_pixels=4_608, max_pixels=9_216),
}


def fit(width: int, height: int, limits: PixelLimits) -> tuple[int, int]:
    """(width, height) in pixels at which a picture of that size enters the model."""
    raise NotImplementedError
