"""One way to call a provider: key, rate, budget, retries with jitter, typed errors."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from typing import Any

import httpx
import stamina
from aiolimiter import AsyncLimiter
from pydantic import SecretStr

from vlagent.chat.keys import key_from_environment, refuse_keys
from vlagent.errors import AuthError, ServiceError, TransientError, UserError
from vlagent.search.budget import Budget
from vlagent.search.web.base import Capabilities, ProviderConfig
from vlagent.search.web.failures import failure

_MAX_BYTES = 10_000_000
_SHORTEST_KEY = 8
"""Characters; a stand-in of one letter must not eat that letter from the answers."""


class _Keyed(httpx.AsyncBaseTransport):
    """Adds the key below the client, so that no log of URLs or headers sees it."""

    def __init__(self, inner: httpx.AsyncBaseTransport, key: SecretStr, place: str) -> None:
        self._inner, self._key, self._place = inner, key, place

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        kind, name = self._place.split(":")
        value = self._key.get_secret_value()
        headers, url = request.headers.copy(), request.url
        if kind == "query":
            url = url.copy_set_param(name, value)
        else:
            headers[name] = f"Bearer {value}" if name == "Authorization" else value
        keyed = httpx.Request(
            request.method, url, headers=headers, stream=request.stream, extensions=request.extensions
        )
        return await self._inner.handle_async_request(keyed)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Caller:
    """JSON over HTTP to one provider. `transport` replaces the network (a test)."""

    def __init__(
        self,
        service: str,
        capabilities: Capabilities,
        config: ProviderConfig,
        budget: Budget,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        default_url: str | None = None,
        key_place: str = "header:Authorization",
    ) -> None:
        """Raises `UserError` for a missing key, a base URL that is none, or one that holds a key."""
        self.service = service
        self.capabilities = capabilities
        self.config = config
        self._budget = budget
        self._base = _base_url(service, config.base_url or default_url)
        self._key = key_from_environment(capabilities.key_names) if capabilities.key_names else None
        if capabilities.key_names and self._key is None and config.base_url is None:
            raise UserError(f"search provider {service} wants a key: set {capabilities.key_names[0]}")
        self._place = key_place
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limiter: AsyncLimiter | None = None

    async def get(self, path: str, params: Mapping[str, Any]) -> Any:
        """The JSON that `GET path` answers with."""
        return await self._retried("GET", path, {"params": {**params, **self.config.extra}})

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON that `POST path` answers with."""
        return await self._retried("POST", path, {"json": {**body, **self.config.extra}})

    async def aclose(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.aclose()

    async def _retried(self, method: str, path: str, content: dict[str, Any]) -> Any:
        config = self.config
        tries = stamina.retry_context(
            on=self._pause,
            attempts=config.attempts,
            timeout=None,
            wait_initial=config.wait_s,
            wait_max=config.timeout_s,
            wait_jitter=config.wait_s,
        )
        try:
            async with asyncio.timeout(config.timeout_s):
                async for attempt in tries:
                    with attempt:
                        return await self._once(method, path, content)
        except TimeoutError as error:
            raise TransientError(self.service, f"no answer within {config.timeout_s:g} s") from error
        raise AssertionError("stamina ends with an answer or an error")

    def _pause(self, error: Exception) -> bool | float:
        """Whether to try again, and after how many seconds where the provider says so."""
        if not isinstance(error, ServiceError) or not error.retryable:
            return False
        if error.retry_after_s is None:
            return True
        wait = error.retry_after_s + random.uniform(0.001, 0.001 + self.config.wait_s)
        return wait if wait < self.config.timeout_s else False

    async def _once(self, method: str, path: str, content: dict[str, Any]) -> Any:
        client = self._open()
        if self._limiter:
            await self._limiter.acquire()
        if self.capabilities.usd_per_call:
            self._budget.spend(self.service, self.capabilities.usd_per_call)
        try:
            async with client.stream(method, self._base + path, **content) as response:
                raw = await self._read(response)
        except httpx.HTTPError as error:
            raise TransientError(self.service, f"the connection failed ({type(error).__name__})") from error
        raw = self._redacted(raw)
        if response.status_code != 200:
            raise self._failure(response, raw)
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            kind = response.headers.get("content-type", "of no type").split(";")[0]
            raise TransientError(self.service, f"the answer is no JSON ({kind}, {len(raw)} bytes)") from error

    def _failure(self, response: httpx.Response, raw: bytes) -> ServiceError:
        if self._key is None and response.status_code in (401, 403) and self.capabilities.key_names:
            return AuthError(self.service, f"HTTP {response.status_code}: set {self.capabilities.key_names[0]}")
        return failure(self.service, response.status_code, response.headers, raw, self.capabilities.key_names)

    async def _read(self, response: httpx.Response) -> bytes:
        raw = bytearray()
        async for chunk in response.aiter_bytes():
            raw += chunk
            if len(raw) > _MAX_BYTES:
                raise TransientError(self.service, f"the answer is over {_MAX_BYTES // 10**6} MB")
        return bytes(raw)

    def _redacted(self, raw: bytes) -> bytes:
        """What a provider said without the key, should it have repeated it."""
        secret = self._key.get_secret_value().encode() if self._key else b""
        return raw.replace(secret, b"[key]") if len(secret) >= _SHORTEST_KEY else raw

    def _open(self) -> httpx.AsyncClient:
        """The client of the running loop: connections and limiters belong to one loop."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._loop, rate = loop, self.config.requests_per_second
            inner = self._transport or httpx.AsyncHTTPTransport(trust_env=False)
            keyed = _Keyed(inner, self._key, self._place) if self._key else inner
            timeout = httpx.Timeout(self.config.timeout_s, pool=None)
            self._client = httpx.AsyncClient(transport=keyed, timeout=timeout, trust_env=False)
            self._limiter = AsyncLimiter(max(1.0, rate / 2), max(1.0, rate / 2) / rate) if rate else None
        return self._client


def _base_url(service: str, text: str | None) -> str:
    if not text:
        raise UserError(f"search provider {service}: its address is needed (base_url)")
    refuse_keys(text)
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UserError(f"search provider {service}: base_url {text!r}: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UserError(f"search provider {service}: base_url {text!r}: write it as https://HOST")
    return text.rstrip("/")
