"""A server over fakes of all that it depends on, in one event loop and over real connections."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import SecretStr

from tests.fakes.chat_server import Chat
from tests.fakes.pages_server import Pages, fact
from tests.fakes.search_engines import KEY, Serper, tag
from vlagent.search.live_config import LiveConfig
from vlagent.search.server.app import make_app
from vlagent.search.server.desk import Desk, Supplies
from vlagent.search.server.options import ServerOptions

QUERY = "When was the tower opened?"


@dataclass
class World:
    """Fakes, a desk over them, and a client of the application."""

    options: dict[str, Any] = field(default_factory=dict)
    live: dict[str, Any] = field(default_factory=dict)
    local: str | None = None
    key: str | None = None
    patience_s: float = 20.0
    """Of each dependency."""
    links: int = 2
    pages: Pages = field(default_factory=lambda: Pages(delay_s=0))
    chat: Chat = field(default_factory=lambda: Chat(delay_s=0))

    def __post_init__(self) -> None:
        self.serper = Serper(lambda query: self.pages.links(query, self.links), delay_s=0)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[World]:
        os.environ["VLAGENT_SERPER_KEY"] = KEY
        servers = [await fake.serve() for fake in (self.serper, self.pages, self.chat)]
        table = {name: {**part, **self.live.get(name, {})} for name, part in self._live().items()} | {
            name: part for name, part in self.live.items() if not isinstance(part, dict)
        }
        supplies = Supplies(LiveConfig.model_validate(table), self.local)
        self.desk = Desk(supplies, ServerOptions.model_validate({"deadline_s": 60.0, **self.options}))
        app = make_app(self.desk, key=SecretStr(self.key) if self.key else None)
        transport = httpx.ASGITransport(app=app)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=90) as self.client:
                yield self
        finally:
            await self.desk.aclose()
            for server in servers:
                server.close()

    def _live(self) -> dict[str, dict[str, Any]]:
        return {
            "text": {"provider": "serper", "base_url": self.serper.url, "attempts": 1, "timeout_s": self.patience_s},
            "pages": {
                "robots": False,
                "workers": 0,
                "javascript": "never",
                "timeout_s": self.patience_s,
                "allow": [f"127.0.0.1:{self.pages.port}"],
            },
            "summary": {
                "model": "fake-model",
                "base_url": self.chat.base_url,
                "attempts": 1,
                "timeout_s": self.patience_s,
            },
            "cache": {},
            "budget": {},
            "noise": {},
        }

    async def ask(self, query: str = QUERY, **fields: Any) -> httpx.Response:
        return await self.client.post("/search", json={"query": query, **fields})

    def fact(self, query: str = QUERY, number: int = 0) -> str:
        return fact(f"/{tag(query)}/{number}")
