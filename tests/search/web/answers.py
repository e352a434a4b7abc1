"""Answers as the providers' documentation shows them, behind an httpx transport."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

SERPER = {
    "searchParameters": {"q": "belmont tower", "num": 10, "type": "search"},
    "organic": [
        {"title": "Belmont Tower", "link": "https://one.example/a", "snippet": "Opened in 1931.", "position": 1},
        {"title": "Towers of the north", "link": "https://two.example/b", "snippet": "A list.", "position": 2},
        {"title": "No address", "snippet": "left out", "position": 3},
        {"title": "Again", "link": "https://one.example/a", "snippet": "the same page", "position": 4},
    ],
    "relatedSearches": [{"query": "belmont"}],
}
SEARXNG = {
    "query": "belmont tower",
    "number_of_results": 0,
    "results": [
        {
            "url": "https://one.example/a",
            "title": "Belmont Tower",
            "content": "Opened in 1931.",
            "engine": "duckduckgo",
        },
        {"url": "https://two.example/b", "title": "Towers", "content": "A list.", "engine": "wikipedia"},
    ],
    "unresponsive_engines": [],
}
BRAVE = {
    "type": "search",
    "query": {"original": "belmont tower"},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "Belmont Tower",
                "url": "https://one.example/a",
                "description": "<strong>Opened</strong> in 1931.",
            },
            {"title": "Towers &amp; more", "url": "https://two.example/b", "description": "A list."},
        ],
    },
}
TAVILY = {
    "query": "belmont tower",
    "answer": None,
    "images": [],
    "results": [
        {"title": "Belmont Tower", "url": "https://one.example/a", "content": "Opened in 1931.", "score": 0.98},
        {"title": "Towers", "url": "https://two.example/b", "content": "A list.", "score": 0.5},
    ],
    "response_time": 1.2,
}
RETRIEVAL = {
    "result": [
        [
            {"document": {"id": "7", "contents": '"Belmont Tower"\nOpened in 1931.'}, "score": 12.5},
            {"document": {"id": "9", "contents": "Towers\nA list."}, "score": 3.0},
        ]
    ]
}


class Network(httpx.AsyncBaseTransport):
    """Answers by `answer(request)` and keeps what it was asked."""

    def __init__(self, answer: Callable[[httpx.Request], httpx.Response]) -> None:
        self.answer = answer
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        self.requests.append(request)
        return self.answer(request)

    @property
    def last(self) -> httpx.Request:
        return self.requests[-1]

    def body(self) -> Any:
        return json.loads(self.last.content)


def always(status: int, value: Any, headers: dict[str, str] | None = None) -> Network:
    """The same answer to everything; a text is sent as it is."""
    if isinstance(value, str):
        return Network(lambda _: httpx.Response(status, text=value, headers=headers))
    return Network(lambda _: httpx.Response(status, json=value, headers=headers))
