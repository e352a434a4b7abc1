"""Boxes between resolutions, and the one way to scale a picture."""

from __future__ import annotations

import math

from PIL import Image

from vlagent.types import Box

Exact = tuple[float, float, float, float]
"""Left, top, right, bottom with fractions of a pixel."""


def scaled(box: Box, full: tuple[int, int], level: tuple[int, int]) -> Exact:
    """A box of the picture of size `full`, in pixels of its smaller version of size `level`."""
    x, y = level[0] / full[0], level[1] / full[1]
    return box[0] * x, box[1] * y, box[2] * x, box[3] * y


def outward(box: Exact, size: tuple[int, int]) -> Box:
    """The whole pixels that a fractional box touches, at least one."""
    left, top = math.floor(box[0] + 1e-6), math.floor(box[1] + 1e-6)
    right, bottom = min(math.ceil(box[2] - 1e-6), size[0]), min(math.ceil(box[3] - 1e-6), size[1])
    left, top = min(left, size[0] - 1), min(top, size[1] - 1)
    return left, top, max(right, left + 1), max(bottom, top + 1)


def within(box: Exact, outer: Box, factor: int = 1) -> Exact:
    """A box relative to the corner of `outer`, after both were shrunk by `factor`."""
    x, y = outer[:2]
    return (box[0] - x) / factor, (box[1] - y) / factor, (box[2] - x) / factor, (box[3] - y) / factor


def share(box: Box, size: tuple[int, int]) -> float:
    """How much of the box's resolution the wanted (width, height) needs."""
    return max(size[0] / (box[2] - box[0]), size[1] / (box[3] - box[1]))


def resize(picture: Image.Image, size: tuple[int, int], box: Exact) -> Image.Image:
    """Scale a fractional box of an RGB picture to `size`: averaged where it shrinks, smooth where it grows."""
    box = max(box[0], 0), max(box[1], 0), min(box[2], picture.width), min(box[3], picture.height)
    if box == (0, 0, *picture.size) and size == picture.size:
        return picture
    grows = size[0] > box[2] - box[0] or size[1] > box[3] - box[1]
    return picture.resize(size, Image.Resampling.BICUBIC if grows else Image.Resampling.LANCZOS, box)
