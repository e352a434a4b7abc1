"""The seams to what the agent looks things up with. Empty is not failed: a failure raises `errors.ServiceError`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from vlagent.types import CachedImageSearch, Hit, ImageRef, Record, Source


class TextQuery(Record):
    """A text search."""

    text: str
    top_k: int = 5


@dataclass(frozen=True)
class ImageQuery:
    """A reverse image search for a picture or a region of one."""

    image: ImageRef
    top_k: int = 5
    cached: CachedImageSearch | None = None
    """The published answer for this very picture, where the data set ships one."""
    cached_root: str | None = None
    """Folder that the cached thumbnail paths are relative to."""


class Page(Record):
    """The readable text of one page."""

    url: str
    title: str = ""
    text: str = ""


class TextSearch(Protocol):
    """Finds passages. Returns at most `query.top_k` hits, best first."""

    async def search(self, query: TextQuery) -> list[Hit]: ...


class ImageSearch(Protocol):
    """Finds pages or files that show the same picture. Returns at most `query.top_k` hits, best first."""

    async def search(self, query: ImageQuery) -> list[Hit]: ...


class PageReader(Protocol):
    """Fetches the text behind an address."""

    async def read(self, url: str) -> Page: ...


class Summary(Record):
    """The two-stage summary of some hits: each in a few sentences, then all together."""

    text: str
    parts: tuple[str, ...] = ()
    """One a hit, in the order of the hits."""
    part_sources: tuple[Source, ...] = ()
    """Of each part; `sources` names each but once."""
    sources: tuple[Source, ...] = ()
    degraded: bool = False
    flags: tuple[str, ...] = ()
    """What a reader of the summary should know (`Hit.flags`, and what shows only when all are read together)."""


class Summariser(Protocol):
    """Condenses hits against a question."""

    async def summarise(self, question: str, hits: list[Hit]) -> Summary: ...


class Checks(Protocol):
    """Looks for noise in what was found: contradictions, namesakes, queries that name nothing that was seen."""

    def order(self, query: str, hits: list[Hit]) -> list[Hit]:
        """The same hits, flagged, those about a namesake last."""
        ...

    def note(self, query: str, seen: list[Hit]) -> str:
        """One line on a query that names none of what was seen so far, or nothing."""
        ...


@dataclass
class SearchServices:
    """What a run may look things up with; None where there is nothing of the kind."""

    text: TextSearch | None = None
    images: ImageSearch | None = None
    pages: PageReader | None = None
    summariser: Summariser | None = None
    checks: Checks | None = None
    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def aclose(self) -> None:
        """Release connections, browsers and files. The services open them anew when they are used again."""
        for close in self.closers:
            await close()


async def closed(*things: object) -> None:
    """Call `aclose` of each that has one."""
    for thing in things:
        aclose: Callable[[], Awaitable[None]] | None = getattr(thing, "aclose", None)
        if aclose is not None:
            await aclose()
