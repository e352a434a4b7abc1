"""Read a sign from the pixels of a crop: compare it with every name that it could bear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlagent.toy.scene import UNIT
from vlagent.toy.signs import SignPlan, draw_panel
from vlagent.types import Box

FINEST = 3.0
"""Largest scale at which lettering is drawn for comparison; the typeface is spaced differently at small sizes."""
LIKE = 0.5
"""Least correlation with a name's lettering; a crop that shows no such sign stays well below."""
EDGE = 0.08
"""Part of the sign's sides that is its frame and not compared."""


def read_sign(
    crop: Image.Image, region: Box, sign: Box, canvas: int, look: tuple[str, float], names: Sequence[str]
) -> str | None:
    """The name on a sign, or None where the crop does not show one.

    `crop` shows the pixels `region` of the scene at any size, `sign` is where the sign should be (scene pixels), `look`
    its colour and letter size.
    """
    seen = _cut(crop, region, sign)
    if seen is None:
        return None
    plan = SignPlan(look[0], "", tuple(side * UNIT / canvas for side in sign), look[1], 0)  # type: ignore[arg-type]
    scale = min(FINEST, canvas / UNIT)
    likeness = {name: _correlation(seen, _expected(replace(plan, name=name), scale, seen.shape)) for name in names}
    best = max(likeness, key=lambda name: likeness[name])
    return best if likeness[best] >= LIKE else None


def _cut(crop: Image.Image, region: Box, sign: Box) -> NDArray[np.float64] | None:
    """The inner part of the sign in grey, [height, width]; None if the crop does not hold all of it."""
    x1, y1, x2, y2 = _inside(sign)
    if x1 < region[0] or y1 < region[1] or x2 > region[2] or y2 > region[3]:
        return None
    across, down = crop.width / (region[2] - region[0]), crop.height / (region[3] - region[1])
    box = ((x1 - region[0]) * across, (y1 - region[1]) * down, (x2 - region[0]) * across, (y2 - region[1]) * down)
    shrink = min(1.0, 160 / (box[2] - box[0]))
    size = max(8, round((box[2] - box[0]) * shrink)), max(4, round((box[3] - box[1]) * shrink))
    return np.asarray(crop.convert("L").resize(size, Image.Resampling.BILINEAR, box=box), dtype=np.float64)


def _inside(sign: Box) -> tuple[float, float, float, float]:
    dx, dy = (sign[2] - sign[0]) * EDGE, (sign[3] - sign[1]) * EDGE
    return sign[0] + dx, sign[1] + dy, sign[2] - dx, sign[3] - dy


def _expected(plan: SignPlan, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The same part of a clean sign with that name, at the same size."""
    size = round((plan.box[2] - plan.box[0]) * scale), round((plan.box[3] - plan.box[1]) * scale)
    panel = draw_panel(plan, size, scale, blotched=False).convert("L")
    box = _inside((0, 0, *size))
    return np.asarray(panel.resize((shape[1], shape[0]), Image.Resampling.BILINEAR, box=box), dtype=np.float64)


def _correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 1e-6 else 0.0
