"""Reverse image search of the web by the picture's address: Google Lens through Serper or SerpApi.

Serper: `POST https://google.serper.dev/lens` {"url"} -> `organic: [{title, link, source, thumbnailUrl}]`.
SerpApi: `GET https://serpapi.com/search?engine=google_lens&url=...` -> `visual_matches: [{title, link, thumbnail}]`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from vlagent import images
from vlagent.errors import PermanentError, QuotaError, RateLimitedError, ServiceError, UserError
from vlagent.files import write_atomic
from vlagent.search.base import ImageQuery
from vlagent.search.budget import Budget
from vlagent.search.pages.fetch import Fetcher
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.publish import Publisher
from vlagent.search.web.results import hits_of, rows_of
from vlagent.search.web.serper import KEY_NAMES as SERPER_NAMES
from vlagent.search.web.serper import URL as SERPER_URL
from vlagent.types import Hit, ImageRef

_THUMBNAIL_BYTES = 2_000_000


class Thumbnails:
    """Fetches the small pictures of results into a folder. One that fails is left out; its title stays."""

    def __init__(self, fetcher: Fetcher, folder: Path) -> None:
        self._fetcher, self._folder = fetcher, folder

    async def attach(self, hits: list[Hit], addresses: Mapping[str, str]) -> list[Hit]:
        """The hits with their pictures; `addresses` is by the URL of the page."""
        found = await asyncio.gather(*(self._one(addresses.get(hit.source.url or "")) for hit in hits))
        return [hit.model_copy(update={"thumbnail": ref}) for hit, ref in zip(hits, found, strict=True)]

    async def _one(self, url: str | None) -> ImageRef | None:
        if not url or not url.startswith(("http://", "https://")):
            return None
        try:
            answer = await self._fetcher.get(url, max_bytes=_THUMBNAIL_BYTES)
            return await asyncio.to_thread(_kept, answer.data, self._folder)
        except (ServiceError, UserError):
            return None


def _kept(data: bytes, folder: Path) -> ImageRef:
    path = folder / f"{hashlib.sha256(data).hexdigest()[:24]}.img"
    if not path.exists():
        write_atomic(path, data)
    try:
        return images.probe(path)
    except UserError:
        path.unlink(missing_ok=True)
        raise


class SerperLens:
    """An `ImageSearch` over Serper's Google Lens."""

    capabilities = Capabilities(max_results=20, usd_per_call=0.003, key_names=SERPER_NAMES, takes_image_url=True)

    def __init__(
        self,
        config: ProviderConfig,
        budget: Budget,
        publisher: Publisher,
        thumbnails: Thumbnails,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._caller = Caller(
            "serper lens",
            self.capabilities,
            config,
            budget,
            transport,
            default_url=SERPER_URL,
            key_place="header:X-API-KEY",
        )
        self._publisher, self._thumbnails = publisher, thumbnails
        self.aclose = self._caller.aclose

    async def search(self, query: ImageQuery) -> list[Hit]:
        """Pages that show the picture, or the region of it that was asked for."""
        async with self._publisher.published(query.image) as url:
            answer = await self._caller.post("/lens", {"url": url})
        rows = rows_of("serper lens", answer, "organic", mark="searchParameters")
        return await self._thumbnails.attach(
            hits_of(rows, "link", "source", query.top_k), _addresses(rows, "thumbnailUrl", "imageUrl")
        )


class SerpApiLens:
    """An `ImageSearch` over SerpApi's Google Lens."""

    capabilities = Capabilities(
        max_results=60, usd_per_call=0.015, key_names=("VLAGENT_SERPAPI_KEY", "SERPAPI_API_KEY"), takes_image_url=True
    )

    def __init__(
        self,
        config: ProviderConfig,
        budget: Budget,
        publisher: Publisher,
        thumbnails: Thumbnails,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._caller = Caller(
            "serpapi",
            self.capabilities,
            config,
            budget,
            transport,
            default_url="https://serpapi.com",
            key_place="query:api_key",
        )
        self._publisher, self._thumbnails = publisher, thumbnails
        self.aclose = self._caller.aclose

    async def search(self, query: ImageQuery) -> list[Hit]:
        """Pages that show the picture. SerpApi reports "no results" as an error of status 200: that is empty."""
        async with self._publisher.published(query.image) as url:
            answer = await self._caller.get("/search.json", {"engine": "google_lens", "url": url})
        if isinstance(answer, dict) and (said := answer.get("error")):
            return _no_results(str(said))
        rows = rows_of("serpapi", answer, "visual_matches", mark="search_metadata")
        return await self._thumbnails.attach(
            hits_of(rows, "link", "source", query.top_k), _addresses(rows, "thumbnail", "image")
        )


def _no_results(said: str) -> list[Hit]:
    """Raises a typed error for any other message."""
    if "any results" in said:
        return []
    if "run out of searches" in said:
        raise QuotaError("serpapi", said)
    if "throughput" in said:
        raise RateLimitedError("serpapi", said)
    raise PermanentError("serpapi", said)


def _addresses(rows: list[Mapping[str, Any]], *fields: str) -> dict[str, str]:
    """Page -> thumbnail, the first of the fields that holds an address."""
    found: dict[str, str] = {}
    for row in rows:
        link = row.get("link")
        picture = next((row[field] for field in fields if isinstance(row.get(field), str)), None)
        if isinstance(link, str) and picture:
            found.setdefault(link, picture)
    return found
