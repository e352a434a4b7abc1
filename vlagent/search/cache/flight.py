"""Identical requests in flight share one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class SingleFlight:
    """One task a key; who asks while it runs gets its outcome, error or not.

    A caller that is cancelled leaves the task to the others; the last one to leave cancels it.
    """

    def __init__(self) -> None:
        self._tasks: dict[tuple[int, Hashable], asyncio.Task[Any]] = {}
        self._waiting: dict[asyncio.Task[Any], int] = {}

    async def run(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The outcome of `make()`, called once for all who wait for this key."""
        place = (id(asyncio.get_running_loop()), key)
        task = self._tasks.get(place)
        if task is None or task.cancelling():
            task = self._tasks[place] = asyncio.ensure_future(_awaited(make))
            task.add_done_callback(lambda done: self._forget(place, done))
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._waiting.get(task) == 1 and not task.done():
                task.cancel()
            raise
        finally:
            if task in self._waiting:
                self._waiting[task] -= 1

    def _forget(self, place: tuple[int, Hashable], task: asyncio.Task[Any]) -> None:
        if self._tasks.get(place) is task:
            del self._tasks[place]
        self._waiting.pop(task, None)
        if not task.cancelled():
            task.exception()  # seen: all who waited may be gone


async def _awaited(make: Callable[[], Awaitable[T]]) -> T:
    return await make()
