"""What the filter measures on a picture: how sharp it is, and which small things are in it.

Shape letters: H, W = pixels of the working copy.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vlagent import images
from vlagent.types import Box, ImageRef

Grey = NDArray[np.uint8]
SIDE = 2048
"""Pixels of the longer side at which small things are looked for."""
BLOCKS = 8
"""Blocks a side: the sharpest parts count, since a blurred background is not a fault."""
SHARPEST = 0.95
"""Quantile of the blocks."""
MIN_AREA = 1e-5
"""Share of the picture below which a region is noise."""
MIN_CONTRAST = 40
"""Grey levels between a small thing and what is around it."""
MIN_FILL = 0.25
"""Share of its box that an outline encloses: a long thin edge is no thing."""
MAX_REGIONS = 200


def grey_of(ref: ImageRef, side: int = SIDE) -> Grey:
    """The picture in grey, [H, W], never enlarged. Raises `ServiceError` where it cannot be read."""
    scale = min(1.0, side / max(ref.width, ref.height))
    size = max(1, round(ref.width * scale)), max(1, round(ref.height * scale))
    return np.asarray(images.load(ref, size).convert("L"), dtype=np.uint8)


def sharpness(grey: Grey) -> float:
    """Standard deviation of the Laplacian in the sharpest blocks, in grey levels.

    A picture that was enlarged or is out of focus has no fine detail anywhere and stays near 1.
    """
    detail = cv2.Laplacian(grey, cv2.CV_32F)
    rows = np.array_split(detail, min(BLOCKS, grey.shape[0]), axis=0)
    blocks = [block for row in rows for block in np.array_split(row, min(BLOCKS, grey.shape[1]), axis=1)]
    return float(np.quantile([block.std() for block in blocks], SHARPEST))


def small_regions(grey: Grey, most_share: float) -> list[Box]:
    """Boxes [left, top, right, bottom] of compact, contrasting things that cover at most `most_share` of the picture.

    Words and objects look alike here: a morphological gradient, its strong parts joined, and their outlines kept if
    they fill their box. It says where there is small detail, not what it is.
    """
    height, width = grey.shape
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (3, 3))
    edges = cv2.morphologyEx(grey, cv2.MORPH_GRADIENT, kernel)
    strong = (edges >= MIN_CONTRAST).astype(np.uint8)
    reach = max(3, round(0.004 * max(height, width)) | 1)
    joined = cv2.morphologyEx(strong, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_RECT, (reach, reach)))
    outlines, nesting = cv2.findContours(joined, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    outer = [each for each, links in zip(outlines, nesting[0], strict=True) if links[3] < 0] if outlines else []
    found = [_box(each) for each in outer if _is_thing(each, height * width, most_share)]
    found.sort(key=lambda box: (box[2] - box[0]) * (box[3] - box[1]), reverse=True)
    return found[:MAX_REGIONS]


def _is_thing(outline: Any, area: int, most_share: float) -> bool:
    left, top, right, bottom = _box(outline)
    box = (right - left) * (bottom - top)
    fits = MIN_AREA * area <= box <= most_share * area and min(right - left, bottom - top) >= 4
    return fits and cv2.contourArea(outline) >= MIN_FILL * box


def _box(outline: Any) -> Box:
    left, top, width, height = cv2.boundingRect(outline)
    return int(left), int(top), int(left + width), int(top + height)


def small_words(ref: ImageRef, most_share: float) -> list[Box]:
    """The same for words that the extra `vlagent[ocr]` reads. Raises `UserError` where it is not installed."""
    from vlagent.tools.ocr import word_boxes

    area = ref.width * ref.height
    return [box for box in word_boxes(ref) if (box[2] - box[0]) * (box[3] - box[1]) <= most_share * area]


def smallest_share(boxes: list[Box], size: tuple[int, int]) -> float | None:
    """Part of a picture of (width, height) `size` that the smallest box covers; None without boxes."""
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in boxes]
    return min(areas) / (size[0] * size[1]) if areas else None
