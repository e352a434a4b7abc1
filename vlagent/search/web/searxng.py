"""A SearXNG instance of one's own: `GET /search?q=...&format=json` (settings.yml must list json under formats)."""

from __future__ import annotations

import httpx

from vlagent.errors import PermanentError, TransientError
from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.http import Caller
from vlagent.search.web.results import hits_of, rows_of
from vlagent.types import Hit


class SearXNG:
    """A `TextSearch`; its hits hold snippets. `extra` takes `engines`, `language`, `categories`, ..."""

    capabilities = Capabilities(max_results=50)

    def __init__(
        self, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._caller = Caller("searxng", self.capabilities, config, budget, transport)
        self.aclose = self._caller.aclose

    async def search(self, query: TextQuery) -> list[Hit]:
        """The results of all its engines. Nothing found while engines were silent is a failure, not an empty list."""
        try:
            answer = await self._caller.get("/search", {"q": query.text, "format": "json"})
        except PermanentError as error:
            if "HTTP 403" not in str(error):
                raise
            raise PermanentError("searxng", "HTTP 403: this instance gives no JSON (settings.yml, formats)") from None
        hits = hits_of(rows_of("searxng", answer, "results", mark="query"), "url", "content", query.top_k)
        silent = answer.get("unresponsive_engines")
        if not hits and silent:
            raise TransientError("searxng", f"no engine answered ({len(silent)} failed)")
        return hits
