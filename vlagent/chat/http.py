"""A model behind any OpenAI-compatible chat-completions endpoint, or Azure OpenAI."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import Field

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.chat.failures import error_of, failure
from vlagent.chat.keys import AZURE_NAMES, OPENAI_NAMES, KeyAuth, key_from_environment, refuse_keys
from vlagent.chat.pictures import DataUrls
from vlagent.chat.post import Poster, PostOptions
from vlagent.chat.wire import read_reply, refuse_error_body, request_body
from vlagent.errors import TransientError, UserError
from vlagent.types import Usage

OPENAI_URL = "https://api.openai.com/v1"


class HttpOptions(PostOptions):
    """How an endpoint is used. Keys are no options: they come from the environment."""

    base_url: str = OPENAI_URL
    """Up to and without `/chat/completions`; for Azure the resource, `https://NAME.openai.azure.com`."""
    api_version: str | None = None
    """Azure OpenAI; the model's name is then that of the deployment."""
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
        self._poster = Poster(self._service, self.options, self._auth, transport)
        self._pictures = DataUrls()
        self._max_tokens_field = "max_tokens"

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
        await self._poster.aclose()

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
        return await self._poster.retried(lambda: self._attempt(request, body))

    async def _body(self, request: ChatRequest) -> dict[str, Any]:
        parts = list(dict.fromkeys(part for message in request.messages for part in message.images))
        urls = await asyncio.gather(*(self._pictures.of(part) for part in parts))
        body = request_body(request, dict(zip(parts, urls, strict=True)), self._max_tokens_field)
        if not self.options.send_seed:
            body.pop("seed", None)
        return {"model": self.name, **body, **self.options.extra_body}

    async def _attempt(self, request: ChatRequest, body: dict[str, Any]) -> ChatReply:
        status, headers, answer = await self._poster.posted(self._url, body)
        if status == 400 and _wants_new_field(answer) and "max_tokens" in body:
            self._max_tokens_field = "max_completion_tokens"
            body[self._max_tokens_field] = body.pop("max_tokens")
            status, headers, answer = await self._poster.posted(self._url, body)
        if status != 200:
            raise failure(self._service, status, headers, answer)
        value = await self._poster.parsed(answer, headers.get("content-type", ""))
        refuse_error_body(self._service, value)
        return read_reply(self._service, value, request.stop)

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


def _wants_new_field(answer: bytes) -> bool:
    """Newer OpenAI models take the limit as max_completion_tokens only."""
    error = error_of(answer)
    return error.get("param") == "max_tokens" and "max_completion_tokens" in str(error.get("message"))
