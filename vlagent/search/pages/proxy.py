"""The proxy that Chromium goes through: it resolves by itself, so what it connects to is checked here."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import httpx

from vlagent.errors import ServiceError
from vlagent.search.pages.guard import Blocked, Guard

_HEAD_BYTES = 65_536
_CONNECT_S = 10.0
_BROKEN = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)
BLOCKED_HEADER = "x-page-blocked"


@dataclass(frozen=True)
class _Asked:
    """What a client wants."""

    host: str
    port: int
    forward: bytes
    """What is sent on to the site; empty for a tunnel."""
    body: int = 0
    """Bytes of a body that follow."""


class CheckingProxy:
    """A forward proxy on loopback; every connection goes to an address that the guard has checked."""

    def __init__(self, guard: Guard, max_bytes: int = 50_000_000) -> None:
        """`max_bytes` is the most that one connection may bring in."""
        self._guard = guard
        self._max_bytes = max_bytes
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.refused: list[str] = []
        """Hosts that were asked for and not connected to, the last hundred."""

    async def start(self) -> str:
        """Listen; its address, `http://127.0.0.1:PORT`."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        """Stop listening and drop what is open."""
        if self._server:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._open.add(task)
        try:
            await self._handle(reader, writer)
        except (*_BROKEN, asyncio.CancelledError):
            pass  # the browser or the site went away, or we close: nobody to tell
        finally:
            self._open.discard(task)
            writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            asked = _read(head)
            async with asyncio.timeout(_CONNECT_S):
                site_reader, site_writer = await self._connect(asked.host, asked.port)
        except ServiceError as error:
            await self._refuse(writer, error)
            return
        try:
            await self._relay(asked, (reader, writer), (site_reader, site_writer))
        finally:
            site_writer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        failure: OSError = OSError("no address")
        for address in await self._guard.addresses(host, port):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                failure = error
        raise failure

    async def _refuse(self, writer: asyncio.StreamWriter, error: ServiceError) -> None:
        self.refused = [*self.refused[-99:], str(error)]
        first = f"403 Forbidden\r\n{BLOCKED_HEADER}: 1" if isinstance(error, Blocked) else "502 Bad Gateway"
        head = f"HTTP/1.1 {first}\r\nContent-Type: text/plain\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + b"refused")  # without a body Chromium reports no status
        await writer.drain()

    async def _relay(
        self,
        asked: _Asked,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        site: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """A tunnel goes both ways; a plain request is sent on with its body and nothing after it."""
        if not asked.forward:
            client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            upwards = asyncio.ensure_future(_pump(client[0], site[1], self._max_bytes))
        else:
            site[1].write(asked.forward)
            upwards = asyncio.ensure_future(_copy(client[0], site[1], asked.body))
        try:
            await _pump(site[0], client[1], self._max_bytes)
        finally:
            upwards.cancel()
            with contextlib.suppress(asyncio.CancelledError, *_BROKEN):
                await upwards


def _read(head: bytes) -> _Asked:
    """Raises `Blocked` for what is no request of a browser."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    target = rest.rsplit(" ", 1)[0]
    try:
        url = httpx.URL(f"//{target}") if method == "CONNECT" else httpx.URL(target)
        host = url.host  # decoded now: a bad one is no address
    except (httpx.InvalidURL, UnicodeError):
        raise Blocked("page", "not an address") from None
    if method == "CONNECT":
        return _Asked(host, url.port or 443, b"")
    if url.scheme != "http" or not host:
        raise Blocked("page", f"{url.scheme or 'no scheme'} does not go through this proxy")
    headers = [line for line in lines if line and not line.lower().startswith(("proxy-", "connection:", "keep-alive:"))]
    named = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in headers)}
    if "transfer-encoding" in named or not named.get("content-length", "0").isdecimal():
        raise Blocked("page", "a page is read, not written to")
    request = "\r\n".join([f"{method} {url.raw_path.decode('ascii')} HTTP/1.1", *headers, "Connection: close", "", ""])
    return _Asked(host, url.port or 80, request.encode("latin-1"), int(named.get("content-length", "0")))


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, count: int) -> None:
    while count:
        chunk = await source.read(min(count, 65_536))
        if not chunk:
            return
        count -= len(chunk)
        sink.write(chunk)
        await sink.drain()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, limit: int) -> None:
    while limit > 0 and (chunk := await source.read(65_536)):
        limit -= len(chunk)
        sink.write(chunk)
        await sink.drain()
