"""As many calls of a model at one time as its endpoint takes: fewer while it refuses or slows down, then more again.

Additive increase, multiplicative decrease (Chiu and Jain, 1989), on what a reply says: retries (a 429 or a 5xx that the
client waited out), a 429 past them, or a latency that has grown manifold. One burst of refusals is one decrease.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from vlagent.chat.base import ChatModel, ChatReply, ChatRequest
from vlagent.errors import RateLimitedError

DECREASE = 0.7
SLOW_FACTOR = 4.0
"""A window whose median latency is so many times the best one's means a queue on the other side."""
SLOW_S = 1.0
"""... and at least so many seconds more: instant models have no queue worth a thought."""
WINDOW = 16
"""Replies of one median."""
FORGET = 1.05
"""The best median grows by this factor a window, so that a changed endpoint is not measured by its past."""


@dataclass
class Pace:
    """The number of calls at one time, learnt from replies."""

    ceiling: int
    limit: float = 0.0
    running: int = 0
    cuts: int = 0
    _waiting: deque[asyncio.Future[None]] = field(default_factory=deque)
    _last_cut: float = -1.0
    _latencies: list[float] = field(default_factory=list)
    _best: float | None = None

    def __post_init__(self) -> None:
        if self.ceiling < 1:
            raise ValueError(f"ceiling = {self.ceiling}: at least 1")
        self.limit = float(self.ceiling)

    async def enter(self) -> None:
        """Wait for a slot; first come, first served."""
        if self.running < int(self.limit) and not self._waiting:
            self.running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        self.running -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.running < max(1, int(self.limit)):
            turn = self._waiting.popleft()
            if not turn.done():
                self.running += 1
                turn.set_result(None)

    def learn(self, started: float, now: float, overloaded: bool) -> None:
        """Take in one call that began and ended at these times (seconds of one clock)."""
        if overloaded or self._has_slowed(now - started):
            if started >= self._last_cut:
                self.limit, self._last_cut, self.cuts = max(1.0, self.limit * DECREASE), now, self.cuts + 1
            return
        self.limit = min(float(self.ceiling), self.limit + 1 / self.limit)

    def _has_slowed(self, seconds: float) -> bool:
        self._latencies.append(seconds)
        if len(self._latencies) < WINDOW:
            return False
        median = statistics.median(self._latencies)
        self._latencies.clear()
        best = median if self._best is None else min(median, self._best * FORGET)
        self._best = best
        return median > SLOW_FACTOR * best and median > best + SLOW_S


class Paced:
    """A `ChatModel` that asks another one at its pace; everything else of it shines through."""

    def __init__(self, model: ChatModel, pace: Pace) -> None:
        self._model = model
        self.pace = pace
        self.name = model.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises what the model raises."""
        await self.pace.enter()
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            reply = await self._model.complete(request)
        except RateLimitedError:
            self.pace.learn(started, clock(), overloaded=True)
            raise
        else:
            self.pace.learn(started, clock(), overloaded=reply.retries > 0)
            return reply
        finally:
            self.pace.leave()
