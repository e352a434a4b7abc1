"""Many connections to one server in lanes of two each.

httpx looks through all connections of a client, twice, whenever a request begins or ends, so that the cost of a request
grows with the square of how many run at one time: at 64 it is most of the time of an event loop. Lanes keep it flat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx

PER_LANE = 2
"""Requests of one client at one time, unless there is no other lane left to open."""
MAX_LANES = 128


@dataclass
class _Lane:
    client: httpx.AsyncClient
    running: int = 0


@dataclass
class Lanes:
    """Clients of one event loop, opened as they are needed."""

    make: Callable[[], httpx.AsyncClient]
    most: int = MAX_LANES
    _lanes: list[_Lane] = field(default_factory=list)

    @contextmanager
    def client(self) -> Iterator[httpx.AsyncClient]:
        """The client for one request: the first with room, so that idle connections are used again."""
        lane = self._lane()
        lane.running += 1
        try:
            yield lane.client
        finally:
            lane.running -= 1

    def _lane(self) -> _Lane:
        free = next((lane for lane in self._lanes if lane.running < PER_LANE), None)
        if free is not None:
            return free
        if len(self._lanes) < self.most:
            self._lanes.append(_Lane(self.make()))
            return self._lanes[-1]
        return min(self._lanes, key=lambda lane: lane.running)

    async def aclose(self) -> None:
        """Close all connections."""
        lanes, self._lanes = self._lanes, []
        for lane in lanes:
            await lane.client.aclose()
