"""A model behind any OpenAI-compatible chat-completions endpoint, or Azure OpenAI."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx
import stamina
from aiolimiter import AsyncLimiter
from pydantic import Field

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.chat.failures import error_of, failure
from vlagent.chat.keys import AZURE_NAMES, OPENAI_NAMES, KeyAuth, key_from_environment, refuse_keys
from vlagent.chat.pictures import DataUrls
from vlagent.chat.wire import read_reply, refuse_error_body, request_body
from vlagent.errors import ServiceError, TransientError, UserError
from vlagent.types import Record, Usage

OPENAI_URL = "https://api.openai.com/v1"
MAX_ANSWER_BYTES = 64 * 2**20
logging.getLogger("stamina").addHandler(logging.NullHandler())  # retries are counted in the reply, not printed
_CONNECTIONS = httpx.Limits(max_connections=1024, max_keepalive_connections=128)


class HttpOptions(Record):
    """How an endpoint is used. Keys are no options: they come from the environment."""

    base_url: str = OPENAI_URL
    """Up to and without `/chat/completions`; for Azure the resource, `https://NAME.openai.azure.com`."""
    api_version: str | None = None
    """Azure OpenAI; the model's name is then that of the deployment."""
    timeout_s: float = Field(default=600.0, gt=0)
    """Of one attempt."""
    connect_timeout_s: float = Field(default=10.0, gt=0)
    attempts: int = Field(default=5, ge=1)
    wait_s: float = Field(default=0.5, ge=0)
    """Before the second attempt, with jitter; doubles each time. A `Retry-After` of the server wins."""
    max_wait_s: float = Field(default=60.0, ge=0)
    """The longest wait; a server that asks for more is given up at once."""
    requests_per_minute: float | None = Field(default=None, gt=0)
    usd_per_million_prompt_tokens: float = Field(default=0.0, ge=0)
    usd_per_million_completion_tokens: float = Field(default=0.0, ge=0)
    send_seed: bool = True
    """Derive `seed` from the request's key."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """More fields of the request, as the server knows them; they win over ours."""


class HttpChat:
    """`ChatModel` over HTTP.

    `complete` raises a typed `ServiceError` once the retries are used up. Use it as an asynchronous context manager, or
    call `aclose`. `transport` replaces the network (a recording, a test).
    """

    def __init__(
        self, model: str, options: HttpOptions | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.name = model
        self.options = options or HttpOptions()
        self._url = _endpoint(model, self.options)
        self._service = f"model {model} at {self._url.netloc.decode('ascii')}"
        azure = _is_azure(self._url)
        names = AZURE_NAMES if azure else OPENAI_NAMES
        key = key_from_environment(names)
        if key is None and (azure or self._url.host == httpx.URL(OPENAI_URL).host):
            raise UserError(f"model {model}: {self._url.host} wants a key; set {names[-1]}, or name another --base-url")
        self._auth = KeyAuth(key, "api-key" if azure else "Authorization")
        self._transport = transport
        self._pictures = DataUrls()
        self._max_tokens_field = "max_tokens"
        self._client: httpx.AsyncClient | None = None
        self._limiter: AsyncLimiter | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HttpChat({self.name!r}, {str(self._url.copy_with(query=None))!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. A later request opens new ones."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """One reply. `request.timeout_s` bounds all attempts together."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(request.timeout_s):
                reply, retries = await self._retried(request)
        except TimeoutError as error:
            raise TransientError(self._service, f"no answer within {request.timeout_s:g} s") from error
        return replace(reply, usage=self._priced(reply.usage), latency_s=time.monotonic() - started, retries=retries)

    async def _retried(self, request: ChatRequest) -> tuple[ChatReply, int]:
        body = await self._body(request)
        options = self.options
        tries = stamina.retry_context(
            on=self._pause,
            attempts=options.attempts,
            timeout=None,
            wait_initial=options.wait_s,
            wait_max=options.max_wait_s,
            wait_jitter=options.wait_s,
        )
        async for attempt in tries:
            with attempt:
                return await self._attempt(request, body), attempt.num - 1
        raise AssertionError("stamina ends with a reply or an error")

    def _pause(self, error: Exception) -> bool | float:
        """Whether to try again, and after how many seconds where the server says so."""
        if not isinstance(error, ServiceError) or not error.retryable:
            return False
        if error.retry_after_s is None:
            return True
        if error.retry_after_s > self.options.max_wait_s:
            return False
        return error.retry_after_s + random.uniform(0.001, 0.001 + self.options.wait_s)

    async def _body(self, request: ChatRequest) -> dict[str, Any]:
        parts = list(dict.fromkeys(part for message in request.messages for part in message.images))
        urls = await asyncio.gather(*(self._pictures.of(part) for part in parts))
        body = request_body(request, dict(zip(parts, urls, strict=True)), self._max_tokens_field)
        if not self.options.send_seed:
            body.pop("seed", None)
        return {"model": self.name, **body, **self.options.extra_body}

    async def _attempt(self, request: ChatRequest, body: dict[str, Any]) -> ChatReply:
        status, headers, answer = await self._posted(body)
        if status == 400 and _wants_new_field(answer) and "max_tokens" in body:
            self._max_tokens_field = "max_completion_tokens"
            body[self._max_tokens_field] = body.pop("max_tokens")
            status, headers, answer = await self._posted(body)
        if status != 200:
            raise failure(self._service, status, headers, answer)
        value = await asyncio.to_thread(self._json, answer, headers.get("content-type", ""))
        refuse_error_body(self._service, value)
        return read_reply(self._service, value, request.stop)

    async def _posted(self, body: dict[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        raw = await asyncio.to_thread(lambda: json.dumps(body).encode())
        client = self._open()
        if self._limiter:
            await self._limiter.acquire()
        try:
            async with asyncio.timeout(self.options.timeout_s), self._stream(client, raw) as response:
                answer = self._auth.redact(await self._read(response))
                return response.status_code, response.headers, answer
        except TimeoutError as error:
            raise TransientError(self._service, f"no answer within {self.options.timeout_s:g} s") from error
        except httpx.HTTPError as error:
            raise TransientError(self._service, _broken(error)) from error

    @asynccontextmanager
    async def _stream(self, client: httpx.AsyncClient, raw: bytes) -> AsyncIterator[httpx.Response]:
        headers = {"content-type": "application/json", "accept": "application/json"}
        async with client.stream("POST", self._url, content=raw, headers=headers, auth=self._auth) as response:
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

    def _open(self) -> httpx.AsyncClient:
        """The client of the running loop: connections and limiters belong to one loop."""
        loop, options = asyncio.get_running_loop(), self.options
        if self._client is None or self._loop is not loop:
            self._loop = loop
            timeout = httpx.Timeout(options.timeout_s, connect=options.connect_timeout_s, pool=None)
            self._client = httpx.AsyncClient(
                timeout=timeout, limits=_CONNECTIONS, trust_env=False, transport=self._transport
            )
            self._limiter = _limiter(options.requests_per_minute)
        return self._client

    def _priced(self, usage: Usage) -> Usage:
        options = self.options
        cost = usage.prompt_tokens * options.usd_per_million_prompt_tokens
        cost += usage.completion_tokens * options.usd_per_million_completion_tokens
        return usage.model_copy(update={"cost_usd": cost / 1e6})


def _endpoint(model: str, options: HttpOptions) -> httpx.URL:
    """Where to post. A query of the base URL (`?api-version=...`) is kept."""
    refuse_keys(options.base_url)
    try:
        url = httpx.URL(options.base_url)
    except httpx.InvalidURL as error:
        raise UserError(f"base URL {options.base_url!r}: {error}") from None
    if url.scheme not in ("http", "https") or not url.host or "%" in url.host:
        raise UserError(f"base URL {options.base_url!r}: write it as http://HOST:PORT/v1 or https://HOST/v1")
    path = url.path.rstrip("/").removesuffix("/chat/completions")
    if options.api_version:
        if "/deployments/" not in path:
            path = f"{path.removesuffix('/openai')}/openai/deployments/{model}"
        url = url.copy_set_param("api-version", options.api_version)
    return url.copy_with(path=f"{path}/chat/completions")


def _is_azure(url: httpx.URL) -> bool:
    return "api-version" in url.params or url.host.endswith((".openai.azure.com", ".cognitiveservices.azure.com"))


def _limiter(requests_per_minute: float | None) -> AsyncLimiter | None:
    """At most a tenth of a minute's requests at once."""
    if requests_per_minute is None:
        return None
    burst = max(1.0, requests_per_minute / 10)
    return AsyncLimiter(burst, 60 * burst / requests_per_minute)


def _wants_new_field(answer: bytes) -> bool:
    """Newer OpenAI models take the limit as max_completion_tokens only."""
    error = error_of(answer)
    return error.get("param") == "max_tokens" and "max_completion_tokens" in str(error.get("message"))


def _broken(error: httpx.HTTPError) -> str:
    known: dict[type[httpx.HTTPError], str] = {
        httpx.ConnectError: "cannot connect; is the server running, and the base URL right?",
        httpx.ConnectTimeout: "cannot connect in time",
        httpx.ReadTimeout: "no answer in time",
        httpx.RemoteProtocolError: "the connection broke in mid-answer",
        httpx.ReadError: "the connection broke in mid-answer",
    }
    return known.get(type(error), f"the connection failed ({type(error).__name__})")
