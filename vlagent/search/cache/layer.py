"""Cache and single flight around one kind of call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from vlagent.search.cache.flight import SingleFlight
from vlagent.search.cache.store import Store

T = TypeVar("T")


class Layer(Generic[T]):
    """Calls of one kind: answered from the store where it knows, made once for all who ask at the same time else."""

    def __init__(self, store: Store, kind: str, adapter: TypeAdapter[T], ttl_s: Callable[[T], float | None]) -> None:
        """`kind` carries the version of what is stored; `ttl_s` is None for a value that must not be kept."""
        self._store, self._kind = store, kind
        self._adapter, self._ttl_s = adapter, ttl_s
        self._flights = SingleFlight()
        self.calls = 0
        """Upstream calls that were made."""

    async def get(self, request: str, make: Callable[[], Awaitable[T]]) -> T:
        """The kept value, or that of `make()`. Errors are not kept."""
        known = self.known(request)
        if known is not None:
            return known
        return await self._flights.run(request, lambda: self._made(request, make))

    def known(self, request: str) -> T | None:
        """The kept value."""
        raw = self._store.get(self._kind, request)
        if raw is None:
            return None
        try:
            return self._adapter.validate_json(raw)
        except ValidationError:
            return None

    async def _made(self, request: str, make: Callable[[], Awaitable[T]]) -> T:
        self.calls += 1
        value = await make()
        ttl_s = self._ttl_s(value)
        if ttl_s is not None:
            await self._store.put(self._kind, request, self._adapter.dump_json(value), ttl_s)
        return value
