"""The eight EXIF orientations: between a picture as stored and as a person sees it."""

from __future__ import annotations

from PIL import Image

from vlagent.types import Box

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def valid(value: object) -> int:
    """The orientation that a tag says; 1 (upright) where it says nonsense."""
    return value if isinstance(value, int) and value in _TURNS else 1


def upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """(width, height) of the stored picture once turned, and the other way round."""
    return (size[1], size[0]) if orientation >= 5 else size


def turn(picture: Image.Image, orientation: int) -> Image.Image:
    """The stored picture, turned upright."""
    return picture.transpose(_TURNS[orientation]) if orientation in _TURNS else picture


def stored_box(box: Box, size: tuple[int, int], orientation: int) -> Box:
    """Where a box of the upright picture lies in the stored one of (width, height) `size`."""
    left, top, right, bottom = box
    width, height = size
    if orientation >= 5:
        left, top, right, bottom = top, left, bottom, right
    if orientation in (2, 3, 7, 8):
        left, right = width - right, width - left
    if orientation in (3, 4, 6, 7):
        top, bottom = height - bottom, height - top
    return left, top, right, bottom
