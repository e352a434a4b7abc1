"""Posting JSON to a model's server: connections, keys, rate, retries and typed failures, for every wire form."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
import stamina
from aiolimiter import AsyncLimiter
from pydantic import Field
from pydantic_core import PydanticSerializationError, to_json

from vlagent.chat.keys import KeyAuth
from vlagent.chat.lanes import Lanes
from vlagent.errors import ServiceError, TransientError
from vlagent.types import Record

T = TypeVar("T")
MAX_ANSWER_BYTES = 64 * 2**20
logging.getLogger("stamina").addHandler(logging.NullHandler())  # retries are counted in the reply, not printed
SMALL_BYTES = 64 * 2**10
"""An answer of this size is parsed at once: another thread would take longer."""
_CONNECTIONS = httpx.Limits(max_connections=1024, max_keepalive_connections=128)


class PostOptions(Record):
    """How long and how often a server is asked."""

    timeout_s: float = Field(default=600.0, gt=0)
    """Of one attempt."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    attempts: int = Field(default=5, ge=1)
    wait_s: float = Field(default=0.5, ge=0)
    """Before the second attempt, with jitter; doubles each time. A `Retry-After` of the server wins."""
    max_wait_s: float = Field(default=60.0, ge=0)
    """The longest wait; a server that asks for more is given up at once."""
    requests_per_minute: float | None = Field(default=None, gt=0)


class Poster:
    """One server. `transport` replaces the network (a recording, a test)."""

    def __init__(
        self, service: str, options: PostOptions, auth: KeyAuth, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._service, self._options, self._auth, self._transport = service, options, auth, transport
        self._lanes: Lanes | None = None
        self._limiter: AsyncLimiter | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def aclose(self) -> None:
        """Close the connections. A later request opens new ones."""
        lanes, self._lanes = self._lanes, None
        if lanes is not None and self._loop is asyncio.get_running_loop():
            await lanes.aclose()

    async def retried(self, attempt: Callable[[], Awaitable[T]]) -> tuple[T, int]:
        """What an attempt gives, and how many failed before it; the last error once they are used up."""
        options = self._options
        tries = stamina.retry_context(
            on=self._pause,
            attempts=options.attempts,
            timeout=None,
            wait_initial=options.wait_s,
            wait_max=options.max_wait_s,
            wait_jitter=options.wait_s,
        )
        async for one in tries:
            with one:
                return await attempt(), one.num - 1
        raise AssertionError("stamina ends with a result or an error")

    def _pause(self, error: Exception) -> bool | float:
        """Whether to try again, and after how many seconds where the server says so."""
        if not isinstance(error, ServiceError) or not error.retryable:
            return False
        if error.retry_after_s is None:
            return True
        if error.retry_after_s > self._options.max_wait_s:
            return False
        return error.retry_after_s + random.uniform(0.001, 0.001 + self._options.wait_s)

    async def posted(self, url: httpx.URL, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Status, headers and content of one answer. Raises `TransientError` where there is none."""
        raw = _encoded(body)
        lanes = self._open()
        if self._limiter:
            await self._limiter.acquire()
        try:
            with lanes.client() as client:
                async with asyncio.timeout(self._options.timeout_s), self._stream(client, url, raw) as response:
                    answer = self._auth.redact(await self._read(response))
                    return response.status_code, response.headers, answer
        except TimeoutError as error:
            raise TransientError(self._service, f"no answer within {self._options.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise TransientError(self._service, _broken(error)) from error

    async def parsed(self, answer: bytes, content_type: str) -> Any:
        """The JSON of an answer. Raises `TransientError` where it is none."""
        if len(answer) <= SMALL_BYTES:
            return self._json(answer, content_type)
        return await asyncio.to_thread(self._json, answer, content_type)

    @asynccontextmanager
    async def _stream(self, client: httpx.AsyncClient, url: httpx.URL, raw: bytes) -> AsyncIterator[httpx.Response]:
        headers = {"content-type": "application/json", "accept": "application/json"}
        async with client.stream("POST", url, content=raw, headers=headers, auth=self._auth) as response:
            yield response

    async def _read(self, response: httpx.Response) -> bytes:
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > MAX_ANSWER_BYTES:
                raise TransientError(self._service, f"the answer is over {MAX_ANSWER_BYTES // 2**20} MB")
        return bytes(answer)

    def _json(self, answer: bytes, content_type: str) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError) as error:
            kind = content_type.split(";")[0] or "of no type"
            raise TransientError(self._service, f"the answer is no JSON ({kind}, {len(answer)} bytes)") from error

    def _open(self) -> Lanes:
        """The clients of the running loop: connections and limiters belong to one loop."""
        loop, options = asyncio.get_running_loop(), self._options
        if self._lanes is None or self._loop is not loop:
            self._loop = loop
            timeout = httpx.Timeout(options.timeout_s, connect=options.connect_timeout_s, pool=None)
            trusted = httpx.create_ssl_context(trust_env=False)

            def client() -> httpx.AsyncClient:
                return httpx.AsyncClient(
                    timeout=timeout, limits=_CONNECTIONS, trust_env=False, transport=self._transport, verify=trusted
                )

            self._lanes = Lanes(client, most=1) if self._transport is not None else Lanes(client)
            self._limiter = _limiter(options.requests_per_minute)
        return self._lanes


def _encoded(body: dict[str, Any]) -> bytes:
    """The JSON of a request. In this thread: about 1 ms a megabyte, during which no other thread could run anyway."""
    try:
        return to_json(body)
    except PydanticSerializationError:  # half an emoji, which only escapes can write
        return json.dumps(body).encode()


def _limiter(requests_per_minute: float | None) -> AsyncLimiter | None:
    """At most a tenth of a minute's requests at once."""
    if requests_per_minute is None:
        return None
    burst = max(1.0, requests_per_minute / 10)
    return AsyncLimiter(burst, 60 * burst / requests_per_minute)


def _broken(error: httpx.HTTPError) -> str:
    known: dict[type[httpx.HTTPError], str] = {
        httpx.ConnectError: "cannot connect; is the server running, and the base URL right?",
        httpx.ConnectTimeout: "cannot connect in time",
        httpx.ReadTimeout: "no answer in time",
        httpx.RemoteProtocolError: "the connection broke in mid-answer",
        httpx.ReadError: "the connection broke in mid-answer",
    }
    return known.get(type(error), f"the connection failed ({type(error).__name__})")
