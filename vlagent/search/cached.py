"""The reverse image search that published data ships with each sample."""

from __future__ import annotations

import asyncio
from pathlib import Path

from vlagent import images
from vlagent.errors import PermanentError, UserError
from vlagent.search.base import ImageQuery, ImageSearch
from vlagent.types import CachedImageSearch, Hit, ImageRef, Source


class CachedImages:
    """An `ImageSearch` that answers from the sample where it can, and asks another one otherwise."""

    def __init__(self, fallback: ImageSearch | None = None, *, top_k: int = 5) -> None:
        self._fallback = fallback
        self._top_k = top_k

    async def search(self, query: ImageQuery) -> list[Hit]:
        """The published titles in their order; a missing thumbnail keeps its title.

        Raises PermanentError where nothing is published for the picture and there is no other search.
        """
        cached = query.cached
        if cached and (cached.titles or cached.summary):
            hits = await asyncio.to_thread(_hits, cached, query.cached_root)
            return hits[: min(query.top_k, self._top_k)]
        if self._fallback is None:
            raise PermanentError("image search", "no picture index and no published search for this picture")
        return await self._fallback.search(query)


def _hits(cached: CachedImageSearch, root: str | None) -> list[Hit]:
    """The summary stands with the first title, or alone."""
    if not cached.titles:
        return [Hit(source=Source(title="Published image search"), text=cached.summary)]
    thumbnails = [*cached.thumbnails, *[None] * len(cached.titles)]
    return [
        Hit(
            source=Source(title=title),
            text=cached.summary if rank == 0 else "",
            score=1.0 / (rank + 1),
            thumbnail=_thumbnail(thumbnails[rank], root),
        )
        for rank, title in enumerate(cached.titles)
    ]


def _thumbnail(path: str | None, root: str | None) -> ImageRef | None:
    if not path:
        return None
    try:
        return images.probe(Path(root, path) if root else Path(path))
    except UserError:
        return None
