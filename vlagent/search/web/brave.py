"""Brave: `GET https://api.search.brave.com/res/v1/web/search?q=&count=`, header `X-Subscription-Token`."""

from __future__ import annotations

import httpx

from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import hits_of, rows_of
from vlagent.types import Hit

KEY_NAMES = ("VLAGENT_BRAVE_KEY", "BRAVE_API_KEY", "BRAVE_SEARCH_API_KEY")
URL = "https://api.search.brave.com"
_MAX_CHARS, _MAX_WORDS = 400, 50
"""What Brave takes of a query."""


class Brave:
    """A `TextSearch`; its hits hold snippets."""

    capabilities = Capabilities(max_results=20, usd_per_call=0.005, key_names=KEY_NAMES)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._caller = Caller(
            "brave",
            self.capabilities,
            config,
            budget,
            transport,
            default_url=URL,
            key_place="header:X-Subscription-Token",
        )
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The web results; a query is cut to what Brave takes. Raises typed errors; none found is an empty list."""
        words = " ".join(query.text.split()[:_MAX_WORDS])[:_MAX_CHARS]
        answer = await self._caller.get("/res/v1/web/search", {"q": words, "count": min(max(query.top_k, 10), 20)})
        return hits_of(rows_of("brave", answer, "web", "results", mark="type"), "url", "description", query.top_k)
