"""Pictures and regions that were decoded a moment ago.

The crops of one picture are cut by many episodes at the same time; a crop is read once for people, once for the model.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from pathlib import Path

from PIL import Image

from vlagent.types import Box

MAX_PICTURE_PIXELS = 2**22
"""Larger pictures are read anew each time: a few of them would fill the memory."""
MAX_PIXELS = 2**25
"""Of all that is kept; 4 bytes each."""
LEAST_PIXELS = 2**10
"""What the smallest region counts for: its object is larger than its pixels."""
Key = tuple[str, int, int, Box | None]
"""Path, time of change in nanoseconds, bytes (a changed file is another picture); the stored region, or all of it."""


class Decoded:
    """The most recently used pictures and regions at full resolution, RGB. Safe in threads; nobody writes into them."""

    def __init__(self, max_pixels: int = MAX_PIXELS) -> None:
        self._max_pixels = max_pixels
        self._pixels = 0
        self._known: OrderedDict[Key, Image.Image] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, path: Path, box: Box | None = None) -> Image.Image | None:
        key = _key(path, box)
        with self._lock:
            found = self._known.get(key) if key else None
            if found is not None and key is not None:
                self._known.move_to_end(key)
            return found

    def put(self, path: Path, picture: Image.Image, box: Box | None = None) -> None:
        key, pixels = _key(path, box), _weight(picture)
        with self._lock:
            if key is None or key in self._known or pixels > MAX_PICTURE_PIXELS:
                return
            self._known[key] = picture
            self._pixels += pixels
            while self._pixels > self._max_pixels and len(self._known) > 1:
                self._pixels -= _weight(self._known.popitem(last=False)[1])


def _weight(picture: Image.Image) -> int:
    return max(picture.width * picture.height, LEAST_PIXELS)


def _key(path: Path, box: Box | None) -> Key | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - half the cost of Path.stat, asked for every picture
    except OSError:
        return None
    return (str(path), found.st_mtime_ns, found.st_size, box)


decoded = Decoded()
"""Of this process."""
