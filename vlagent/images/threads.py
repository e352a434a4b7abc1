"""Threads for work on pictures, one more than there are cores: more of them only hold up the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
T = TypeVar("T")

THREADS = (os.cpu_count() or 1) + 1
_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()
"""By event loop, to which a semaphore belongs."""


async def in_thread(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """As `asyncio.to_thread`, but at most `THREADS` at one time: each has to be given the interpreter in turn."""
    async with _slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(THREADS)):
        return await asyncio.to_thread(work, *args, **options)
