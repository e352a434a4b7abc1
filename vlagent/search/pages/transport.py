"""An httpx transport that connects only to addresses which the guard has checked.

The name is resolved once and the connection goes to that very address, so a DNS answer that changes between check and
connect changes nothing. Host header and TLS name stay those of the URL.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import httpcore
import httpx

from vlagent.search.pages.guard import Guard

FAILURES = (
    httpx.HTTPError,
    httpx.StreamError,
    httpx.InvalidURL,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)
"""What a connection through this transport may fail with, besides `Blocked`."""


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers."""
        failure: Exception = httpcore.ConnectError("no address")
        for address in await self._guard.addresses(host, port):
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        """Never: a page is not on this machine."""
        raise httpcore.ConnectError("no local sockets")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._network.sleep(seconds)


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class GuardedTransport(httpx.AsyncBaseTransport):
    """The network as pages are read through it. Raises `Blocked`."""

    def __init__(self, guard: Guard, connections: int = 64) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=httpx.create_ssl_context(),
            max_connections=connections,
            max_keepalive_connections=connections // 4,
            keepalive_expiry=5.0,
            network_backend=_CheckedNetwork(guard),
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; proxies of the environment play no part."""
        url = request.url
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=cast(httpx.AsyncByteStream, request.stream),
            extensions=request.extensions,
        )
        response = await self._pool.handle_async_request(asked)
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Body(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()
