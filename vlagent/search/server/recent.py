"""Answers that were just read from the cache, by the very bytes of their request: a hot query costs no parsing."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from vlagent.search.server.access import App, Receive, Scope, Send
from vlagent.search.server.bodies import Refused, failed

KEPT_S = 5.0
"""So much longer than its time in the cache may an answer live."""
MOST, MOST_BYTES = 2000, 20_000
"""Answers, and bytes of a request or an answer that is remembered."""
Key = tuple[bytes, bytes, bytes]
Message = MutableMapping[str, Any]


@dataclass
class _Answer:
    until: float
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    fields: dict[str, Any]


class Recent:
    """Plain ASGI in front of the routes. Only what a handler marks as `cached` is remembered."""

    def __init__(self, app: App, patience_s: float, path: str = "/search") -> None:
        """`patience_s` is how long a caller may take to send a request."""
        self._app, self._patience_s, self._path = app, patience_s, path
        self._known: OrderedDict[Key, _Answer] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from memory, or pass on and remember."""
        if scope["type"] != "http" or scope["path"] != self._path or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._patience_s):
                messages = await _body(receive)
        except TimeoutError:
            scope["noted"].fields["error"] = "SlowRequest"
            refusal = failed(Refused(408, f"the request did not come within {self._patience_s:g} s"))
            await refusal(scope, receive, send)
            return
        key = _key(scope, messages)
        known = self._known.get(key) if key else None
        if known and known.until > time.monotonic():
            scope["noted"].fields = known.fields
            await send({"type": "http.response.start", "status": known.status, "headers": known.headers})
            await send({"type": "http.response.body", "body": known.body})
            return
        await self._passed_on(scope, messages, receive, send, key)

    async def _passed_on(
        self, scope: Scope, messages: list[Message], receive: Receive, send: Send, key: Key | None
    ) -> None:
        waiting, seen = deque(messages), _Answer(0.0, 0, [], b"", {})

        async def again() -> Message:
            return waiting.popleft() if waiting else await receive()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status, seen.headers = message["status"], list(message["headers"])
            elif not message.get("more_body"):
                seen.body = message.get("body", b"")
            await send(message)

        await self._app(scope, again, noted)
        seen.fields = scope["noted"].fields
        if key and seen.status == 200 and seen.fields.get("cached") and len(seen.body) <= MOST_BYTES:
            self._remember(key, seen)

    def _remember(self, key: Key, seen: _Answer) -> None:
        seen.until = time.monotonic() + KEPT_S
        self._known[key] = seen
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)


async def _body(receive: Receive) -> list[Message]:
    """What has been sent, as far as it may be remembered."""
    messages, size = [await receive()], 0
    while messages[-1].get("more_body") and size <= MOST_BYTES:
        size += len(messages[-1].get("body", b""))
        messages.append(await receive())
    return messages


def _key(scope: Scope, messages: list[Message]) -> Key | None:
    """None for a request that is not whole or too long."""
    body = b"".join(message.get("body", b"") for message in messages)
    if messages[-1]["type"] != "http.request" or messages[-1].get("more_body") or len(body) > MOST_BYTES:
        return None
    accept = kind = b""
    for name, value in scope["headers"]:
        if name == b"accept":
            accept = value
        elif name == b"content-type":
            kind = value
    return body, accept, kind
