"""The last outcomes of everything that a search depends on, as `/health` and `/metrics` tell them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from vlagent.chat.base import ChatModel, ChatReply, ChatRequest
from vlagent.errors import ServiceError
from vlagent.search.base import ImageQuery, ImageSearch, Page, PageReader, TextQuery, TextSearch, closed
from vlagent.types import Hit

T = TypeVar("T")
State = Literal["ok", "failing", "unknown"]
BELIEVED_S = 60.0
"""An outcome says nothing of now when it is older."""


@dataclass
class Seen:
    """What became of the calls of one dependency."""

    tolerated: int = 0
    """Failures in a row that are not yet one of the dependency (pages fail one by one)."""
    good: int = 0
    failed: int = 0
    in_a_row: int = 0
    error: str = ""
    """Kind and words of the last failure."""
    at: float = float("-inf")
    """Monotonic seconds of the last outcome."""

    @property
    def state(self) -> State:
        if time.monotonic() - self.at > BELIEVED_S:
            return "unknown"
        return "failing" if self.in_a_row > self.tolerated else "ok"


class Watch:
    """Dependency -> what was seen of it."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}

    def expect(self, name: str, tolerated: int = 0) -> Seen:
        """The entry of a dependency, made where it is new."""
        return self.seen.setdefault(name, Seen(tolerated))

    async def over(self, name: str, make: Callable[[], Awaitable[T]]) -> T:
        """The outcome of one call, noted. A cancelled call says nothing."""
        seen = self.expect(name)
        try:
            value = await make()
        except ServiceError as error:
            seen.failed += 1
            seen.in_a_row += 1
            seen.error, seen.at = f"{type(error).__name__}: {error}", time.monotonic()
            raise
        seen.good += 1
        seen.in_a_row, seen.at = 0, time.monotonic()
        return value


class WatchedText:
    """A `TextSearch`."""

    def __init__(self, watch: Watch, name: str, inner: TextSearch) -> None:
        self._watch, self._name, self._inner = watch, name, inner
        watch.expect(name)

    async def search(self, query: TextQuery) -> list[Hit]:
        """As the inner one."""
        return await self._watch.over(self._name, lambda: self._inner.search(query))


class WatchedImages:
    """An `ImageSearch`."""

    def __init__(self, watch: Watch, name: str, inner: ImageSearch) -> None:
        self._watch, self._name, self._inner = watch, name, inner
        watch.expect(name)

    async def search(self, query: ImageQuery) -> list[Hit]:
        """As the inner one."""
        return await self._watch.over(self._name, lambda: self._inner.search(query))


class WatchedPages:
    """A `PageReader`; many failures in a row are the network's, a few are those of pages."""

    def __init__(self, watch: Watch, inner: PageReader) -> None:
        self._watch, self._inner = watch, inner
        watch.expect("pages", tolerated=9)

    async def read(self, url: str) -> Page:
        """As the inner one."""
        return await self._watch.over("pages", lambda: self._inner.read(url))


class WatchedChat:
    """A `ChatModel`."""

    def __init__(self, watch: Watch, name: str, inner: ChatModel) -> None:
        self._watch, self._name, self._inner = watch, name, inner
        self.name = inner.name
        watch.expect(name)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """As the inner one."""
        return await self._watch.over(self._name, lambda: self._inner.complete(request))

    async def aclose(self) -> None:
        """Close the inner one."""
        await closed(self._inner)
