"""Providers by name."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import ClassVar, Protocol

import httpx

from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.client import ServedText
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.brave import Brave
from vlagent.search.web.retrieval import Retrieval
from vlagent.search.web.searxng import SearXNG
from vlagent.search.web.serper import Serper
from vlagent.search.web.tavily import Tavily
from vlagent.types import Hit


class TextProvider(Protocol):
    """A `TextSearch` that says what it can do."""

    capabilities: ClassVar[Capabilities]

    async def search(self, query: TextQuery) -> list[Hit]: ...

    def aclose(self) -> Awaitable[None]: ...


TEXT: dict[str, type] = {
    "serper": Serper,
    "searxng": SearXNG,
    "brave": Brave,
    "tavily": Tavily,
    "retrieval": Retrieval,
    "server": ServedText,
}


def open_provider(
    name: str, config: ProviderConfig, budget: Budget, transport: httpx.AsyncBaseTransport | None = None
) -> TextProvider:
    """A provider of `TEXT`. Raises `UserError` for a missing key or address."""
    provider: TextProvider = TEXT[name](config, budget, transport)
    return provider
