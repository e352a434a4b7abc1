"""Tavily: `POST https://api.tavily.com/search`, header `Authorization: Bearer`, body {"query", "max_results"}."""

from __future__ import annotations

import httpx

from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import hits_of, rows_of
from vlagent.types import Hit

KEY_NAMES = ("VLAGENT_TAVILY_KEY", "TAVILY_API_KEY")
URL = "https://api.tavily.com"


class Tavily:
    """A `TextSearch`; its hits hold the snippets that Tavily found to fit the query."""

    capabilities = Capabilities(max_results=20, usd_per_call=0.008, key_names=KEY_NAMES)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._caller = Caller("tavily", self.capabilities, config, budget, transport, default_url=URL)
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The results. Raises typed errors; none found is an empty list."""
        body = {"query": query.text[:400], "max_results": min(query.top_k, 20), "search_depth": "basic"}
        answer = await self._caller.post("/search", body)
        return hits_of(rows_of("tavily", answer, "results", mark="query"), "url", "content", query.top_k)
