"""An index that is refreshed on disk is opened anew: a server outlives many runs of `vlagent index`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence, Sized
from pathlib import Path

from vlagent.errors import UserError
from vlagent.search.base import TextQuery
from vlagent.search.open import TextIndexes, open_passages
from vlagent.search.retrieval import Found
from vlagent.types import Hit

LOOKED_EVERY_S = 1.0


class FreshPassages:
    """The passages of a search folder as they are now, at most a second late."""

    def __init__(self, folder: Path) -> None:
        """Raises `UserError` where there is no index."""
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp, self._looked = _stamp(folder), time.monotonic()
        self._index = open_passages(folder)

    def __len__(self) -> int:
        """Passages in the index; 0 where it does not say."""
        return len(self._index) if isinstance(self._index, Sized) else 0

    async def search(self, query: TextQuery) -> list[Hit]:
        """As the index."""
        return await (await asyncio.to_thread(self._now)).search(query)

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]:
        """As the index."""
        return self._now().passages(queries, top_k)

    def _now(self) -> TextIndexes:
        with self._lock:
            if time.monotonic() - self._looked > LOOKED_EVERY_S:
                self._looked = time.monotonic()
                self._reopen()
            return self._index

    def _reopen(self) -> None:
        stamp = _stamp(self._folder)
        if stamp == self._stamp:
            return
        try:
            self._index = open_passages(self._folder)
        except UserError:
            return  # being written: what is open still answers
        self._stamp = stamp


def _stamp(folder: Path) -> tuple[tuple[str, int], ...]:
    """Changes with every commit to the folder."""
    found = []
    for path in [*folder.glob("*/*.json"), *folder.glob("*/*/meta.json")]:
        try:
            found.append((str(path), path.stat().st_mtime_ns))
        except OSError:
            continue
    return tuple(sorted(found))
