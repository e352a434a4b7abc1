"""Pictures as data URLs, encoded once for all turns and rollouts that show them."""

from __future__ import annotations

import threading
from collections import OrderedDict

from vlagent import images
from vlagent.chat.base import ImagePart
from vlagent.types import ImageRef

Shown = tuple[ImageRef, tuple[int, int]]


class DataUrls:
    """A bounded cache by (picture, view). One thread encodes a picture, others that need it wait."""

    def __init__(self, max_bytes: int = 256 * 2**20, *, lossless: bool = False) -> None:
        """`lossless` is for policies: what they sample from must be what they are trained on, to the pixel."""
        self._max_bytes, self._lossless = max_bytes, lossless
        self._size = 0
        self._kept: OrderedDict[Shown, str] = OrderedDict()
        self._busy: dict[Shown, threading.Lock] = {}
        self._lock = threading.Lock()

    async def of(self, part: ImagePart) -> str:
        """`data:image/...;base64,...`. Raises `ServiceError` where the file broke since it was probed."""
        shown = (part.ref, part.view)
        found = self._look_up(shown)
        return await images.in_thread(self._encode, shown) if found is None else found

    def _look_up(self, shown: Shown) -> str | None:
        with self._lock:
            if shown not in self._kept:
                return None
            self._kept.move_to_end(shown)
            return self._kept[shown]

    def _encode(self, shown: Shown) -> str:
        with self._lock:
            mine = self._busy.setdefault(shown, threading.Lock())
        with mine:
            found = self._look_up(shown)
            if found is not None:
                return found
            url = images.data_url(*shown, lossless=self._lossless)
            self._keep(shown, url)
            return url

    def _keep(self, shown: Shown, url: str) -> None:
        with self._lock:
            self._busy.pop(shown, None)
            if shown not in self._kept:
                self._kept[shown] = url
                self._size += len(url)
            while self._size > self._max_bytes:
                self._size -= len(self._kept.popitem(last=False)[1])
