"""Query -> results -> pages read at once -> hits; hits -> a summary each -> one of all. Each step shared and kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TypeVar

from pydantic import TypeAdapter

from vlagent.errors import ServiceError
from vlagent.search.base import ImageQuery, ImageSearch, Page, PageReader, Summariser, Summary, TextQuery, TextSearch
from vlagent.search.cache.flight import SingleFlight
from vlagent.search.cache.layer import Layer
from vlagent.search.cache.store import Store
from vlagent.search.cache.tape import picture_key
from vlagent.types import Hit

T = TypeVar("T")
HITS = TypeAdapter(list[Hit])
VERSION = "2"
"""Of what is kept: raise it when the same request would give another value (extraction, prompts)."""


class KeptText:
    """A `TextSearch` whose answers are kept."""

    def __init__(self, inner: TextSearch, store: Store, tag: str) -> None:
        """`tag` says what shapes the answer: the provider and its settings."""
        self._inner, self._tag = inner, tag
        kept, empty = store.config.ttl_hours * 3600, store.config.empty_ttl_hours * 3600
        self.layer = Layer(store, f"text {VERSION}", HITS, lambda hits: kept if hits else empty)

    async def search(self, query: TextQuery) -> list[Hit]:
        """As the inner one."""
        request = f"{self._tag} {query.model_dump_json()}"
        return await self.layer.get(request, lambda: self._inner.search(query))


class KeptImages:
    """An `ImageSearch` whose answers are kept, by the picture's content."""

    def __init__(self, inner: ImageSearch, store: Store, tag: str) -> None:
        self._inner, self._tag = inner, tag
        kept, empty = store.config.ttl_hours * 3600, store.config.empty_ttl_hours * 3600
        self.layer = Layer(store, f"images {VERSION}", HITS, lambda hits: kept if hits else empty)

    async def search(self, query: ImageQuery) -> list[Hit]:
        """As the inner one."""
        picture = await asyncio.to_thread(picture_key, query.image)
        return await self.layer.get(f"{self._tag} {query.top_k} {picture}", lambda: self._inner.search(query))


class KeptPages:
    """A `PageReader` whose pages are kept."""

    def __init__(self, inner: PageReader, store: Store, tag: str) -> None:
        self._inner, self._tag = inner, tag
        kept = store.config.ttl_hours * 3600
        self.layer = Layer(store, f"page {VERSION}", TypeAdapter(Page), lambda _: kept)

    async def read(self, url: str) -> Page:
        """As the inner one."""
        return await self.layer.get(f"{self._tag} {url}", lambda: self._inner.read(url))


class LiveText:
    """A `TextSearch` whose hits hold the pages themselves.

    The pages are read at once; one that cannot be read leaves its snippet, and its hit is marked degraded.
    """

    def __init__(self, provider: TextSearch, pages: PageReader) -> None:
        self._provider, self._pages = provider, pages
        self._flights = SingleFlight()

    async def search(self, query: TextQuery) -> list[Hit]:
        """Raises what the provider raises; a page's failure is never one of the search."""
        return await self._flights.run(query, lambda: self._search(query))

    async def _search(self, query: TextQuery) -> list[Hit]:
        found = await self._provider.search(query)
        return list(await asyncio.gather(*(self._read(hit) for hit in found[: query.top_k])))

    async def _read(self, hit: Hit) -> Hit:
        if not hit.source.url:
            return hit
        try:
            page = await self._pages.read(hit.source.url)
        except ServiceError:
            return hit.model_copy(update={"degraded": True})
        title = hit.source.title if hit.source.title != hit.source.url else page.title or hit.source.title
        return hit.model_copy(update={"text": page.text, "source": hit.source.model_copy(update={"title": title})})


class KeptSummaries:
    """A `Summariser` whose summaries are kept, but never a degraded one."""

    def __init__(self, inner: Summariser, store: Store, tag: str) -> None:
        self._inner, self._tag = inner, tag
        kept = store.config.ttl_hours * 3600
        self.layer = Layer(store, f"summary {VERSION}", TypeAdapter(Summary), _if_good(kept))

    async def summarise(self, question: str, hits: list[Hit]) -> Summary:
        """As the inner one."""
        shown = [[hit.source.title, hit.source.url, hit.source.file, hit.source.page, hit.text] for hit in hits]
        marks = [[hit.degraded, hit.flags] for hit in hits]
        digest = hashlib.sha256(json.dumps([shown, marks]).encode()).hexdigest()
        return await self.layer.get(
            json.dumps([self._tag, question, digest]), lambda: self._inner.summarise(question, hits)
        )


class SharedSummaries:
    """A `Summariser` that keeps nothing, but makes a summary once for all who ask at the same time."""

    def __init__(self, inner: Summariser) -> None:
        self._inner, self._flights = inner, SingleFlight()

    async def summarise(self, question: str, hits: list[Hit]) -> Summary:
        """As the inner one."""
        key = (question, tuple((hit.source.url, hit.source.title, hash(hit.text)) for hit in hits))
        return await self._flights.run(key, lambda: self._inner.summarise(question, hits))


class Answers:
    """Search and summary as one step, kept as one: what a server answers with."""

    def __init__(self, text: TextSearch, summariser: Summariser, store: Store | None, tag: str) -> None:
        self._text, self._summariser, self._tag = text, summariser, tag
        self._flights = SingleFlight()
        kept = store.config.ttl_hours * 3600 if store else 0.0
        self._layer = Layer(store, f"answer {VERSION}", TypeAdapter(Summary), _if_good(kept)) if store else None
        self.gate: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
        """Held while an answer is made; what is known or shared needs no place."""

    def known(self, query: TextQuery) -> Summary | None:
        """The kept answer, at once."""
        return self._layer.known(self._request(query)) if self._layer else None

    def _request(self, query: TextQuery) -> str:
        return f"{self._tag} {query.model_dump_json()}"

    async def answer(self, query: TextQuery) -> Summary:
        """The summary of what is found; nothing found is an empty text. Raises what the search raises."""
        request = self._request(query)
        if self._layer:
            return await self._layer.get(request, lambda: self._made(query))
        return await self._flights.run(request, lambda: self._made(query))

    async def _made(self, query: TextQuery) -> Summary:
        async with self.gate():
            hits = await self._text.search(query)
            return await self._summariser.summarise(query.text, hits) if hits else Summary(text="")


def _if_good(ttl_s: float) -> Callable[[Summary], float | None]:
    return lambda summary: None if summary.degraded or not summary.text else ttl_s
