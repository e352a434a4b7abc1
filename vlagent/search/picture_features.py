"""What a picture is recognised by: SIFT keypoints spread over it, a perceptual hash, and a small copy for checking.

RootSIFT: Arandjelovic and Zisserman, "Three things everyone should know to improve object retrieval" (CVPR 2012).

Shape letters: n = keypoints of a picture.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlagent import images
from vlagent.types import ImageRef

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]

SIDE = 448
"""Pixels of the longer side at which a picture is looked at."""
DETAIL_SIDE = 1024
"""The same for a second, closer look."""
SHORTEST = 160
"""A tiny crop is enlarged so that its shorter side has at least this many pixels (if the longer one allows it)."""
KEPT = 600
"""Keypoints of a picture, the strongest of each part of it."""
THUMB = 128
NORM = 512.0
"""Length of a stored descriptor: its square root form times this, as bytes."""


@dataclass(frozen=True, eq=False)
class Features:
    """Everything that is known of one picture, in pixels of its working copy."""

    size: tuple[int, int]
    """Width and height of the working copy."""
    points: Floats
    """[n, 2] x and y."""
    descriptors: Bytes
    """[n, 128]"""
    hash: int
    """64 bits."""
    thumb: Bytes
    """[height, width, 3] RGB, longer side THUMB."""


def extract(ref: ImageRef, *, side: int = SIDE, kept: int = KEPT) -> Features:
    """Look at a picture or a region of it. Raises `ServiceError` if its pixels cannot be read."""
    picture = images.load(ref, working_size(ref.width, ref.height, side))
    rgb = np.asarray(picture, dtype=np.uint8)
    grey = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), dtype=np.uint8)
    points, descriptors = _keypoints(grey, kept)
    return Features(picture.size, points, descriptors, phash(grey), thumbnail(rgb))


def working_size(width: int, height: int, side: int = SIDE) -> tuple[int, int]:
    """The size at which a picture is looked at: never above `side`, tiny ones enlarged."""
    scale = min(side / max(width, height), max(1.0, SHORTEST / min(width, height)))
    return max(1, round(width * scale)), max(1, round(height * scale))


def thumbnail(rgb: Bytes) -> Bytes:
    """The small copy, [height, width, 3]."""
    height, width = rgb.shape[:2]
    scale = THUMB / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def pack_thumb(thumb: Bytes) -> bytes:
    """The small copy as JPEG."""
    buffer = io.BytesIO()
    Image.fromarray(thumb).save(buffer, "JPEG", quality=90, subsampling=0)
    return buffer.getvalue()


def unpack_thumb(data: bytes) -> Bytes:
    """The small copy from JPEG."""
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.uint8)


def phash(grey: Bytes) -> int:
    """64 bits of the low frequencies of a picture; copies differ in few of them."""
    small = cv2.resize(grey, (32, 32), interpolation=cv2.INTER_AREA).astype(np.float32)
    low = cv2.dct(small)[:8, :8].ravel()
    bits = low > np.median(low[1:])
    return int.from_bytes(np.packbits(bits).tobytes(), "big")


def _keypoints(grey: Bytes, most: int) -> tuple[Floats, Bytes]:
    """A low contrast threshold, since drawn pictures have flat areas; then the strongest of each part.

    Large keypoints count for more: they are still there when the picture is pasted small into a page.
    """
    sift = cv2.SIFT.create(nfeatures=0, contrastThreshold=0.01, edgeThreshold=15)
    found = sift.detect(grey, None)
    if not len(found):
        return np.zeros((0, 2), np.float32), np.zeros((0, 128), np.uint8)
    points = np.array([key.pt for key in found], np.float32)
    strength = np.array([key.response * key.size**0.5 for key in found], np.float32)
    chosen, raw = sift.compute(grey, [found[i] for i in _spread(points, strength, grey.shape, most)])
    return np.array([key.pt for key in chosen], np.float32), _root(raw)


def _spread(points: Floats, strength: Floats, shape: tuple[int, ...], most: int, cells: int = 8) -> NDArray[np.intp]:
    """Indices of at most `most` keypoints: round after round, the next strongest of each cell of a grid."""
    height, width = shape[:2]
    column = np.minimum((points[:, 0] * cells / width).astype(int), cells - 1)
    row = np.minimum((points[:, 1] * cells / height).astype(int), cells - 1)
    cell = row * cells + column
    order = np.lexsort((-strength, cell))
    first = np.searchsorted(cell[order], np.arange(cells * cells))
    rank = np.empty(len(points), int)
    rank[order] = np.arange(len(points)) - first[cell[order]]
    return np.sort(np.lexsort((-strength, rank))[:most])


def _root(raw: NDArray[Any]) -> Bytes:
    """[n, 128] SIFT to RootSIFT in bytes."""
    share = raw / np.maximum(raw.sum(axis=1, keepdims=True), 1e-6)
    return np.asarray(np.minimum(np.sqrt(share) * NORM, 255).round(), dtype=np.uint8)
