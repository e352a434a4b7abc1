"""What stage 0 learns from, as plain arrays.

Shape letters: N = pictures, H x W = pixels, P = patches of a picture, T = visual tokens of a picture, G = code groups,
L = tokens of a row, I = placeholders of a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

GROUPS = {"colour": 6, "x": 13, "y": 17, "first": 16, "second": 16}
"""Code group -> directions of it: a sign's colour, the column and row of its crop window, and its name's two pieces."""
OVERVIEW = (0, 1, 2)
"""The groups, by number, that the whole scene shows."""
CROP = (3, 4)
"""The groups that a crop shows."""
NOTHING = -1
"""The label of a visual token that shows nothing of a group."""

Labels = NDArray[np.int16]
"""[..., G]: for every visual token and group which direction it should hold, or `NOTHING`."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures of one size with what each visual token of them shows."""

    pixels: NDArray[np.uint8]
    """[N, H, W, 3]"""
    labels: Labels
    """[N, T, G]"""
    letters: NDArray[np.int16] | None = None
    """[N, P]: the letter under each patch, from 1, or 0; in the order of the patches (merge block by merge block)."""


@dataclass(frozen=True, eq=False)
class Row:
    """One token sequence; its pictures as codes, as pixels, or both."""

    ids: NDArray[np.int64]
    """[L]"""
    own: NDArray[np.bool_]
    """[L]; True on the tokens that the model has to write."""
    grids: tuple[tuple[int, int], ...]
    """(height, width) in visual tokens of each picture, in order of the placeholders."""
    labels: Labels
    """[I, G]"""
    pixels: tuple[NDArray[np.uint8], ...] = ()
    """[H, W, 3] each; empty where only codes are used."""
