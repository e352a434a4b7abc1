"""Google by Serper: `POST https://google.serper.dev/search`, header `X-API-KEY`, body {"q", "num"}."""

from __future__ import annotations

import httpx

from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import hits_of, rows_of
from vlagent.types import Hit

KEY_NAMES = ("VLAGENT_SERPER_KEY", "SERPER_API_KEY", "WEBSEARCH_GOOGLE_SERPER_KEY")
URL = "https://google.serper.dev"


class Serper:
    """A `TextSearch`; its hits hold snippets."""

    capabilities = Capabilities(max_results=100, usd_per_call=0.001, key_names=KEY_NAMES)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._caller = Caller(
            "serper", self.capabilities, config, budget, transport, default_url=URL, key_place="header:X-API-KEY"
        )
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The organic results. Raises typed errors; none found is an empty list."""
        answer = await self._caller.post("/search", {"q": query.text, "num": min(max(query.top_k, 10), 100)})
        return hits_of(rows_of("serper", answer, "organic", mark="searchParameters"), "link", "snippet", query.top_k)
