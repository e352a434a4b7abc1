"""Around every request: who may ask, one line of JSON, and the counts."""

from __future__ import annotations

import hmac
import itertools
import json
import logging
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from vlagent.search.server.metrics import Metrics
from vlagent.search.server.options import is_loopback

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
LOG = logging.getLogger("vlagent.server")
OPEN_PATHS = frozenset({"/health"})
"""Answered without a key, in few words: what balances load must know whether we live."""


@dataclass
class Noted:
    """What a handler tells the log of its request."""

    fields: dict[str, Any] = field(default_factory=dict)
    known: bool = True
    """The caller has shown the key, or none is needed."""


class Access:
    """Plain ASGI: it costs a cached answer next to nothing."""

    def __init__(self, app: App, metrics: Metrics, key: SecretStr | None, paths: frozenset[str]) -> None:
        """`paths` are those that are counted by name; any other is counted as one."""
        self._app, self._metrics, self._paths = app, metrics, paths
        self._key = key.get_secret_value().encode() if key else None
        self._process, self._numbers = secrets.token_hex(4), itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count and log one request; refuse it where the key is wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        noted = scope["noted"] = Noted()
        headers = dict(scope["headers"])
        name = f"{self._process}-{next(self._numbers)}".encode()

        async def answered(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", name)]
            await send(message)

        self._metrics.open_requests += 1
        try:
            await self._let_in(scope, headers, noted, receive, answered)
        finally:
            self._metrics.open_requests -= 1
            taken = time.perf_counter() - started
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.count(path, status, taken)
            self._log(scope["method"], path, status, taken, {"id": name.decode(), **noted.fields})

    async def _let_in(
        self, scope: Scope, headers: dict[bytes, bytes], noted: Noted, receive: Receive, send: Send
    ) -> None:
        noted.known = self._key is None or hmac.compare_digest(_given(headers), self._key)
        if self._key is None and not _is_local(headers):
            await _refuse(send, 403, "without a key this server answers to localhost only (Host header)")
        elif self._key is None and _is_of_a_strange_page(headers):
            await _refuse(send, 403, "without a key this server answers no other site's page (Origin header)")
        elif not noted.known and scope["path"] not in OPEN_PATHS:
            await _refuse(send, 401, "send the key: Authorization: Bearer KEY, or X-API-Key: KEY")
        else:
            await self._app(scope, receive, send)

    def _log(self, method: str, path: str, status: int, taken: float, fields: dict[str, Any]) -> None:
        if LOG.isEnabledFor(logging.INFO):
            more = {"method": method, "path": path, "status": status, "ms": round(1000 * taken, 1), **fields}
            LOG.info("request", extra={"fields": more})


def _given(headers: dict[bytes, bytes]) -> bytes:
    kind, _, bearer = headers.get(b"authorization", b"").partition(b" ")
    return bearer.strip() if kind.lower() == b"bearer" else headers.get(b"x-api-key", b"")


def _is_local(headers: dict[bytes, bytes]) -> bool:
    """A web page that gives its name the address of this machine (DNS rebinding) sends its own name."""
    host = headers.get(b"host", b"").decode("latin-1")
    bare = host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdigit() else host
    return is_loopback(bare)


def _is_of_a_strange_page(headers: dict[bytes, bytes]) -> bool:
    """A page of the web may send requests from this machine's browser: they would spend what searches cost."""
    origin = headers.get(b"origin")
    return origin is not None and not _is_local({b"host": origin.partition(b"://")[2]})


async def _refuse(send: Send, status: int, message: str) -> None:
    raw = json.dumps({"error": {"type": "Refused", "service": "request", "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": raw})


class JsonLines(logging.Formatter):
    """One object a line. A traceback is one of its fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        line: dict[str, Any] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "said": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def write_logs(level: str) -> None:
    """All logs of this process as JSON lines on stderr. Below `debug`, libraries that log addresses stay silent."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    logging.getLogger("vlagent").setLevel(level.upper())
    for name in ("httpx", "httpcore", "stamina", "asyncio", "pypdf", "trafilatura", "charset_normalizer"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name != "uvicorn.access"
