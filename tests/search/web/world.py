"""A small web behind one transport: a search engine, five pages and a model, each counted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import httpx

from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.search.live import Live, Network, open_live
from vlagent.search.live_config import LiveConfig

PAGES = 5
FILLER = " ".join(f"The council met {n} times that year to speak about roads and bridges." for n in range(20))


class World(httpx.AsyncBaseTransport):
    """Search, pages and model; `broken` names what fails and how (an HTTP status)."""

    def __init__(self, pages: dict[str, str] | None = None) -> None:
        self.calls: Counter[str] = Counter()
        self.broken: dict[str, int] = {}
        self.cut = False
        self.pages = pages or {
            f"https://site{n}.example/a": f"Belmont Tower was opened in 19{n}1. {FILLER}" for n in range(PAGES)
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        assert not self.cut, f"the network is cut, and {request.url} was asked for"
        kind = {"google.serper.dev": "search", "llm.example": "summary"}.get(request.url.host, "page")
        self.calls[kind] += 1
        status = self.broken.get(kind) or self.broken.get(request.url.host)
        await asyncio.sleep(0.01)
        if status:
            return httpx.Response(status, json={"message": "out of order"})
        if kind == "search":
            return httpx.Response(200, json={"organic": self._results()})
        if kind == "summary":
            return httpx.Response(200, json=self._reply(json.loads(request.content)))
        return self._page(request.url)

    def _results(self) -> list[dict[str, Any]]:
        return [{"title": f"Result {n}", "link": url, "snippet": f"snippet {n}"} for n, url in enumerate(self.pages)]

    def _page(self, url: httpx.URL) -> httpx.Response:
        text = self.pages.get(str(url))
        if text is None:
            return httpx.Response(404)
        paragraphs = "".join(f"<p>{part}.</p>" for part in text.split(". "))
        return httpx.Response(200, html=f"<html><head><title>Page</title></head><body>{paragraphs}</body></html>")

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        prompt = body["messages"][0]["content"]
        text = prompt if isinstance(prompt, str) else prompt[0]["text"]
        said = f"Summary {self.calls['summary']}: {text.count('Belmont')} mentions."
        return {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}

    def live(self, table: dict[str, Any] | None = None, *, model: bool = True, **network: Any) -> Live:
        """Services over this world."""
        config = {
            "text": {"provider": "serper", "attempts": 1},
            "pages": {"robots": False, "workers": 0, "javascript": "never"},
        }
        chat = HttpChat("m", HttpOptions(base_url="http://llm.example/v1", attempts=1), self) if model else None
        merged = LiveConfig.model_validate(config | (table or {}))
        return open_live(merged, Network(transport=self, summariser=chat, **network))
