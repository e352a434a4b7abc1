"""One address to bytes: redirects re-checked, bytes capped after decompression, every refusal typed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from vlagent.chat.failures import retry_after_s
from vlagent.errors import PermanentError, RateLimitedError, TransientError
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.guard import Blocked, Guard
from vlagent.search.pages.transport import FAILURES, GuardedTransport

_ACCEPT = "text/html,application/xhtml+xml,application/pdf;q=0.9,text/plain;q=0.8,*/*;q=0.5"
_MOVED = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Fetched:
    """What an address answered with."""

    url: str
    """After redirects."""
    status: int
    content_type: str
    """Lower case, without parameters; empty where the server says nothing."""
    charset: str | None
    data: bytes
    cut: bool = False
    """There was more than `max_bytes`."""


class Fetcher:
    """GET through the guard. `transport` replaces the network in tests; addresses of redirects are checked anyway."""

    def __init__(self, config: PageConfig, guard: Guard, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.config = config
        self.guard = guard
        self._given = transport
        self._transport: httpx.AsyncBaseTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None and transport is not self._given and self._loop is asyncio.get_running_loop():
            await transport.aclose()

    async def get(
        self, url: str, *, max_bytes: int | None = None, check: Callable[[str], Awaitable[None]] | None = None
    ) -> Fetched:
        """The answer, whatever its status below 300. Raises `Blocked` and other typed errors, each naming the host.

        `check` is asked before each request, those of redirects too; what it raises ends the reading.
        """
        place, cookies = parsed(url), httpx.Cookies()
        for _ in range(self.config.redirects + 1):
            self.guard.check_url(place)
            if check is not None:
                await check(str(place))
            answer = await self._once(place, cookies, max_bytes or self.config.max_bytes)
            if isinstance(answer, Fetched):
                return answer
            place = answer
        raise PermanentError("page", f"{place.host}: more than {self.config.redirects} redirects")

    async def _once(self, url: httpx.URL, cookies: httpx.Cookies, max_bytes: int) -> Fetched | httpx.URL:
        """One request: what it answers, or where it points."""
        request = httpx.Request("GET", url, headers=self._headers(), extensions={"timeout": self._timeouts()})
        cookies.set_cookie_header(request)
        try:
            response = await self._open().handle_async_request(request)
        except FAILURES as error:
            raise TransientError("page", f"{url.host}: {_reason(error)}") from error
        response.request = request
        try:
            cookies.extract_cookies(response)
            if response.status_code in _MOVED and "location" in response.headers:
                return _joined(url, response.headers["location"])
            _refuse(url.host, response)
            data, cut = await _body(response, max_bytes)
        except (*FAILURES, zlib.error) as error:
            raise TransientError("page", f"{url.host}: {_reason(error)}") from error
        finally:
            await response.aclose()
        return Fetched(str(url), response.status_code, *_type(response), data, cut)

    def _headers(self) -> dict[str, str]:
        # Only what can be unpacked piece by piece: a bomb must not open in memory.
        agent = {"user-agent": self.config.user_agent, "accept-language": "en;q=0.9, *;q=0.5"}
        return {"accept": _ACCEPT, "accept-encoding": "gzip, deflate", **agent}

    def _timeouts(self) -> dict[str, float]:
        limit = self.config.timeout_s
        return {"connect": limit, "read": limit, "write": limit, "pool": limit}

    def _open(self) -> httpx.AsyncBaseTransport:
        loop = asyncio.get_running_loop()
        if self._transport is None or self._loop is not loop:
            self._loop = loop
            self._transport = self._given or GuardedTransport(self.guard, self.config.concurrency)
        return self._transport


def parsed(url: str) -> httpx.URL:
    """Without its fragment; raises `Blocked` for what is no address."""
    try:
        return _whole(httpx.URL(url))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise Blocked("page", f"not an address: {error}") from None


def _whole(url: httpx.URL) -> httpx.URL:
    """Without its fragment. httpx decodes a host (xn--...) when it is asked for, so a bad one is found here."""
    assert url.host is not None
    return url.copy_with(fragment=None)


def _joined(base: httpx.URL, location: str) -> httpx.URL:
    try:
        return _whole(base.join(location))
    except (httpx.InvalidURL, UnicodeError) as error:
        raise Blocked("page", f"{base.host} redirects to what is no address: {error}") from None


def _refuse(host: str, response: httpx.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    message, wait = f"{host}: HTTP {status}", retry_after_s(response.headers)
    if status == 429:
        raise RateLimitedError("page", message, retry_after_s=wait)
    if status >= 500 or status in (408, 425):
        raise TransientError("page", message, retry_after_s=wait)
    raise Refused("page", message, status)


class Refused(PermanentError):
    """The site says no (4xx)."""

    def __init__(self, service: str, message: str, status: int) -> None:
        super().__init__(service, message)
        self.status = status


async def _body(response: httpx.Response, max_bytes: int) -> tuple[bytes, bool]:
    data = bytearray()
    async for piece in _unpacked(response):
        data += piece
        if len(data) > max_bytes:
            return bytes(data[:max_bytes]), True
    return bytes(data), False


async def _unpacked(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body, decompressed at most a megabyte at a time."""
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("identity", ""):
        async for chunk in response.stream:  # type: ignore[union-attr]
            yield chunk
        return
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise PermanentError("page", f"{response.request.url.host}: content encoding {encoding!r} was not asked for")
    unpack: Any = None
    async for chunk in response.stream:  # type: ignore[union-attr]
        if unpack is None and chunk:
            unpack = zlib.decompressobj(_window(encoding, chunk))
        while chunk:
            yield unpack.decompress(chunk, 2**20)
            chunk = unpack.unconsumed_tail


def _window(encoding: str, first: bytes) -> int:
    """`deflate` comes with a zlib header or without; gzip always has its own."""
    if encoding != "deflate":
        return 31
    return 15 if first[0] & 0x0F == 8 else -15


def _type(response: httpx.Response) -> tuple[str, str | None]:
    kind, _, parameters = response.headers.get("content-type", "").partition(";")
    name = parameters.lower().partition("charset=")[2].split(";")[0].strip(" \"'")
    return kind.strip().lower(), name or None


def _reason(error: Exception) -> str:
    name = type(error).__name__
    if "Timeout" in name:
        return "no answer in time"
    return f"the connection failed ({name})"
