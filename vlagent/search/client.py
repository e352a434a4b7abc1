"""Our search server as search services: what `vlagent serve search` answers, as if it were in this process."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from pathlib import Path
from typing import Any, ClassVar

import httpx
from pydantic import ValidationError

from vlagent import images
from vlagent.errors import TransientError, UserError
from vlagent.files import write_atomic
from vlagent.search.base import ImageQuery, Summary, TextQuery
from vlagent.search.budget import Budget
from vlagent.search.summary import ExtractiveSummariser
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import rows_of
from vlagent.types import Hit, ImageRef, Source

KEY_NAMES = ("VLAGENT_SERVER_KEY",)
TIMEOUT_S = 60.0
"""Where the configuration names none: the server searches, reads and summarises in this time."""
REMEMBERED = 1000
"""Summaries of all results that wait for being asked for."""
_LONGEST_SIDE = 1600


class ServedText:
    """A `TextSearch`: each hit holds the server's summary of one result."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_results=20, full_text=True, key_names=KEY_NAMES)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """`config.extra` may hold `retrieval_mode`, `llm_model`, ... Raises `UserError` without an address."""
        self._caller = _caller(config, budget, transport, self.capabilities)
        self._said: OrderedDict[str, Summary] = OrderedDict()
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The results, best first. Raises what the server's refusal means."""
        body = {"query": query.text, "top_k": min(query.top_k, self.capabilities.max_results), "format": "json"}
        answer = await self._caller.post("/search", body)
        try:
            summary = Summary.model_validate(answer)
        except ValidationError:
            raise TransientError("search server", "the answer is no summary (is it another server?)") from None
        self._said[query.text] = summary
        while len(self._said) > REMEMBERED:
            self._said.popitem(last=False)
        pairs = zip(summary.part_sources, summary.parts, strict=False)
        return [Hit(source=source, text=part, score=1 / rank) for rank, (source, part) in enumerate(pairs, 1)]

    def said(self, question: str) -> Summary | None:
        """The summary that came with the results of this question."""
        return self._said.get(question)


class ServedSummaries:
    """A `Summariser` that passes on what the server said of all results together."""

    def __init__(self, text: ServedText) -> None:
        self._text, self._extract = text, ExtractiveSummariser()

    async def summarise(self, question: str, hits: list[Hit]) -> Summary:
        """Hits that came from elsewhere, or not all of those that came, are extracted from."""
        said, parts = self._text.said(question), [hit.text for hit in hits]
        if said is None or sorted(parts) != sorted(said.parts):
            return await self._extract.summarise(question, hits)
        return said.model_copy(update={"parts": tuple(parts), "part_sources": tuple(hit.source for hit in hits)})


class ServedImages:
    """An `ImageSearch`: the picture's bytes go to the server, thumbnails come back into a folder."""

    capabilities: ClassVar[Capabilities] = Capabilities(max_results=20, key_names=KEY_NAMES)

    def __init__(
        self, config: ProviderConfig, budget: Budget, folder: Path, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._caller = _caller(config, budget, transport, self.capabilities)
        self._folder = folder
        self.aclose = self._caller.aclose

    async def search(self, query: ImageQuery) -> list[Hit]:
        """Pages or files that show the picture or its region."""
        raw = await asyncio.to_thread(_bytes_of, query.image)
        body = {"image": base64.b64encode(raw).decode("ascii"), "top_k": min(query.top_k, 20)}
        rows = rows_of("search server", await self._caller.post("/image_search", body), "hits")
        return list(await asyncio.gather(*(asyncio.to_thread(self._hit, dict(row)) for row in rows)))

    def _hit(self, row: dict[str, Any]) -> Hit:
        source = Source(title=str(row.get("title") or "Untitled"), url=row.get("url"), file=row.get("file"))
        thumbnail = self._kept(row["thumbnail"]) if row.get("thumbnail") else None
        return Hit(source=source, text=str(row.get("text") or ""), score=row.get("score") or 0.0, thumbnail=thumbnail)

    def _kept(self, text: str) -> ImageRef | None:
        """A thumbnail that cannot be read is left out; its title stays."""
        try:
            raw = base64.b64decode(text, validate=True)
            path = self._folder / f"{hashlib.sha256(raw).hexdigest()[:24]}.jpg"
            if not path.exists():
                write_atomic(path, raw)
            return images.probe(path)
        except (ValueError, UserError):
            return None


def _caller(
    config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None, capabilities: Capabilities
) -> Caller:
    if config.base_url is None:
        raise UserError('provider "server": its address is needed (base_url = "http://HOST:8000")')
    url = config.base_url.rstrip("/").removesuffix("/search").removesuffix("/image_search")
    timeout_s = config.timeout_s if "timeout_s" in config.model_fields_set else TIMEOUT_S
    config = config.model_copy(update={"base_url": url, "timeout_s": timeout_s})
    return Caller("search server", capabilities, config, budget, transport)


def _bytes_of(image: ImageRef) -> bytes:
    scale = min(1.0, _LONGEST_SIDE / max(image.width, image.height))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return images.encode(images.load(image, size), "PNG" if size[0] * size[1] <= images.PNG_PIXELS else "JPEG")
