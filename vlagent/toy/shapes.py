"""Vector drawing: filled polygons in canvas-free units, mapped by a 3 x 3 matrix and painted at any size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import ImageDraw

Colour = tuple[int, int, int]
Points = NDArray[np.float64]
"""[n, 2] corners, x right and y down."""
Matrix = NDArray[np.float64]
"""[3, 3] projective map of points."""


@dataclass(frozen=True, eq=False)
class Shape:
    """One filled polygon."""

    points: Points
    fill: Colour


def polygon(corners: Sequence[tuple[float, float]], fill: Colour) -> Shape:
    """A polygon from its corners."""
    return Shape(np.array(corners, dtype=np.float64), fill)


def rectangle(x1: float, y1: float, x2: float, y2: float, fill: Colour) -> Shape:
    """An upright rectangle."""
    return polygon([(x1, y1), (x2, y1), (x2, y2), (x1, y2)], fill)


def disc(x: float, y: float, radius_x: float, radius_y: float, fill: Colour) -> Shape:
    """An ellipse as a polygon of 20 corners."""
    turns = [2 * math.pi * i / 20 for i in range(20)]
    return polygon([(x + radius_x * math.cos(t), y + radius_y * math.sin(t)) for t in turns], fill)


def moved(shapes: Iterable[Shape], matrix: Matrix, gain: float = 1.0, lift: float = 0.0) -> list[Shape]:
    """The shapes seen from elsewhere (`matrix`) in another light (colour x `gain` + `lift`)."""
    out = []
    for shape in shapes:
        mapped = np.c_[shape.points, np.ones(len(shape.points))] @ matrix.T
        red, green, blue = (int(min(255, max(0, channel * gain + lift))) for channel in shape.fill)
        out.append(Shape(mapped[:, :2] / mapped[:, 2:], (red, green, blue)))
    return out


def paint(draw: ImageDraw.ImageDraw, shapes: Iterable[Shape], scale: float) -> None:
    """Paint in order; `scale` is pixels a unit."""
    for shape in shapes:
        draw.polygon([(float(x), float(y)) for x, y in shape.points * scale], fill=shape.fill)
