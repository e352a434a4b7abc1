"""Do two pictures show the same? Geometry first, then the pixels under it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from vlagent.search.picture_features import Bytes, Features, Floats, unpack_thumb

TOLERANCE = 6.0
"""Pixels of the picture's working copy by which a corner may miss its place."""
PROOFS = ((30, -1.0), (12, 0.2), (5, 0.6))
"""Corners in place, and the correlation of pixels that confirms a picture with so many: thirty need no other proof
(light, an inscription, a paste-over); five could be chance unless the pixels agree too."""


@dataclass(frozen=True)
class Match:
    """A confirmed picture."""

    picture: int
    score: float
    """0 to 1: many corners in place and equal pixels give the most."""
    corners: int = 0
    correlation: float = 0.0


def similarity(
    picture: int, looks: Features, here: Floats, there: Floats, size: tuple[int, int], packed: bytes | None
) -> Match | None:
    """Confirm a candidate by its matching corners: `here` [m, 2] in the query, `there` [m, 2] in the picture."""
    matrix, mask = cv2.estimateAffinePartial2D(
        here, there, method=cv2.RANSAC, ransacReprojThreshold=TOLERANCE, maxIters=1000, confidence=0.99
    )
    if matrix is None or not 0.08 < np.hypot(matrix[0, 0], matrix[1, 0]) < 12:
        return None
    inside = mask.ravel().astype(bool)
    corners = _distinct(here[inside], there[inside])
    if corners < PROOFS[-1][0]:
        return None
    correlation = _correlation(looks, matrix, size, unpack_thumb(packed)) if packed else 0.0
    if not any(corners >= enough and correlation >= agree for enough, agree in PROOFS):
        return None
    return Match(picture, corners / (corners + 20) * (0.5 + 0.5 * max(correlation, 0.0)), corners, correlation)


def same_picture(picture: int, looks: Features, size: tuple[int, int], packed: bytes | None) -> Match | None:
    """Confirm a candidate by its hash: the whole query is the whole picture, pixel by pixel."""
    (width, height), (w, h) = looks.size, size
    if packed is None or abs(np.log((width / height) / (w / h))) > 0.06:
        return None
    thumb = unpack_thumb(packed)
    mine = cv2.resize(looks.thumb, (thumb.shape[1], thumb.shape[0]), interpolation=cv2.INTER_AREA).astype(np.float32)
    other = thumb.astype(np.float32)
    difference = float(np.abs(mine - other).mean())
    correlation = _pearson(mine, other) if min(mine.std(), other.std()) > 2 else 1.0
    if difference > 12 or correlation < 0.95:
        return None
    return Match(picture, correlation * (1 - difference / 255), 0, correlation)


def _distinct(here: Floats, there: Floats) -> int:
    """Corners at different places on both sides: ten keypoints on one letter are no proof."""
    places = [len({(int(x), int(y)) for x, y in points / 8.0}) for points in (here, there)]
    return min(places)


def _correlation(looks: Features, matrix: NDArray[np.float64], size: tuple[int, int], thumb: Bytes) -> float:
    """Of the picture's small copy and the query laid over it, where both are; 0 where too little is shared."""
    height, width = thumb.shape[:2]
    to_thumb = np.diag([width / size[0], height / size[1], 1.0])
    from_small = np.diag([looks.size[0] / looks.thumb.shape[1], looks.size[1] / looks.thumb.shape[0], 1.0])
    whole = (to_thumb @ np.vstack([matrix, [0, 0, 1]]) @ from_small)[:2]
    source = _softened(looks.thumb, float(np.hypot(whole[0, 0], whole[1, 0])))
    laid = cv2.warpAffine(source, whole, (width, height), flags=cv2.INTER_LINEAR)
    seen = cv2.warpAffine(np.full(source.shape[:2], 255, np.uint8), whole, (width, height)) > 250
    if seen.sum() < 64:
        return 0.0
    enlarged = float(np.hypot(whole[0, 0], whole[1, 0]))
    other = cv2.GaussianBlur(thumb, (0, 0), 0.5 * enlarged) if enlarged > 1.2 else thumb
    return _pearson(laid[seen].astype(np.float32), other[seen].astype(np.float32))


def _softened(small: Bytes, scale: float) -> NDArray[np.uint8]:
    """Blurred by what a reduction to `scale` would take away."""
    return np.asarray(cv2.GaussianBlur(small, (0, 0), 0.5 / scale) if scale < 0.8 else small, dtype=np.uint8)


def _pearson(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    x, y = a.ravel() - a.mean(), b.ravel() - b.mean()
    norm = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / norm if norm > 1e-6 else 0.0
