"""A bounded number of places, a bounded queue before them, and a word on when to come back."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vlagent.errors import RateLimitedError

_WEIGHT = 0.1
"""Of the newest duration in the running mean."""


class Busy(RateLimitedError):
    """The queue is full; nothing was begun."""


class Gate:
    """Places for work."""

    def __init__(self, at_once: int, waiting: int) -> None:
        self.at_once, self.most_waiting = at_once, waiting
        self.running = self.waiting = self.refused = 0
        self._mean_s = 1.0
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place. Raises `Busy` where the queue is full."""
        if self._free.locked() and self.waiting >= self.most_waiting:
            self.refused += 1
            raise Busy("server", f"{self.waiting} queries wait already", retry_after_s=self._come_back_s())
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        started = time.monotonic()
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._free.release()
            self._mean_s += _WEIGHT * (time.monotonic() - started - self._mean_s)

    def _come_back_s(self) -> int:
        """When those who wait now should be through."""
        return max(1, math.ceil(self._mean_s * (self.waiting + 1) / self.at_once))
