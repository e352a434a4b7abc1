"""A retrieval server with the Search-R1 contract: `POST /retrieve {"queries", "topk", "return_scores"}`."""

from __future__ import annotations

from typing import Any

import httpx

from vlagent.errors import TransientError
from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import rows_of
from vlagent.types import Hit, Source


class Retrieval:
    """A `TextSearch`; its hits hold the passages themselves."""

    capabilities = Capabilities(max_results=100, full_text=True)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        url = config.base_url.rstrip("/").removesuffix("/retrieve") if config.base_url else None
        config = config.model_copy(update={"base_url": url})
        self._caller = Caller("retrieval", self.capabilities, config, budget, transport)
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The passages, best first."""
        body = {"queries": [query.text], "topk": query.top_k, "return_scores": True}
        answer = await self._caller.post("/retrieve", body)
        lists = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(lists, list) or len(lists) != 1:
            raise TransientError("retrieval", "the answer holds not one list for one query")
        rows = rows_of("retrieval", {"result": lists[0]}, "result")
        return [_hit(row) for row in rows[: query.top_k]]


def _hit(row: Any) -> Hit:
    document = row.get("document", row)
    contents = document.get("contents") if isinstance(document, dict) else None
    if not isinstance(contents, str):
        raise TransientError("retrieval", "a document has no contents")
    title, _, body = contents.partition("\n")
    url = document.get("url")
    score = row.get("score")
    return Hit(
        source=Source(title=title.strip().strip('"') or "Untitled", url=url if isinstance(url, str) else None),
        text=body.strip() or title.strip(),
        score=float(score) if isinstance(score, int | float) else 0.0,
    )
