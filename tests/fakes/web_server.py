"""A small HTTP/1.1 server for fakes, on a loopback port: quick enough to stand under load, able to fail in every way.

One event loop in a thread of its own (`with Fake():` in tests) or in the process (`serve`, for benchmarks). What a
service does not allow is a `Refused`; faults come first in, first out, then `always`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import httptools

FaultKind = Literal[
    "500", "hang", "reset", "garbage", "slow", "wrong_type", "429", "quota", "auth", "truncated", "empty"
]
DRIP_S = 0.4
"""Between two pieces of a slow answer."""
PIECES = 20


@dataclass(frozen=True)
class Fault:
    """One request goes wrong in this way."""

    kind: FaultKind
    retry_after_s: float | None = None


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        if self.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise ValueError("no JSON was sent")
        return json.loads(self.body)

    def parameter(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)


@dataclass
class Answer:
    """What goes back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json"


class Refused(Exception):
    """The service does not allow this request: its documented status and body."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(f"{status}: {body}")
        self.answer = Answer(status, json.dumps(body).encode(), dict(headers or {}))


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


class Fake:
    """A service. Subclasses write `reply`, and `refusals` in the words of the service's documentation."""

    delay_s = 0.0
    """What the service itself takes."""

    def __init__(self, *, delay_s: float | None = None) -> None:
        self.delay_s = self.delay_s if delay_s is None else delay_s
        self.faults: deque[Fault] = deque()
        self.always: Fault | None = None
        self.seen: list[Asked] = []
        self.refused: list[str] = []
        """Requests that the service does not allow: a client that has any here is wrong."""
        self.counts: Counter[str] = Counter()
        self.most_seen = 10_000
        self.port = 0

    def reply(self, asked: Asked) -> Answer:
        """The answer; raises `Refused`."""
        raise NotImplementedError

    def refusal(self, fault: Fault) -> Answer:
        """`429`, `quota` and `auth` in the service's own words."""
        status = {"429": 429, "quota": 402, "auth": 401}[fault.kind]
        return as_json({"message": fault.kind}, status)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Any:
        ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def serve(self, port: int = 0) -> asyncio.Server:
        """Listen in the running loop."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=2048)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._until_stopped(ready))
        self._loop.close()

    async def _until_stopped(self, ready: threading.Event) -> None:
        self._stop = asyncio.Event()
        server = await self.serve(self.port)
        ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks():
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.sleep(0)

    def next_fault(self) -> Fault | None:
        return self.faults.popleft() if self.faults else self.always

    def note(self, asked: Asked) -> None:
        self.counts["requests"] += 1
        if len(self.seen) < self.most_seen:
            self.seen.append(asked)

    async def answered(self, asked: Asked) -> Answer:
        """The answer and what it took, without faults."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        try:
            return self.reply(asked)
        except Refused as refused:
            self.refused.append(str(refused))
            return refused.answer


class _Connection(asyncio.Protocol):
    def __init__(self, fake: Fake) -> None:
        self._fake = fake
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, _: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        url = urlsplit(self._url.decode("latin-1"))
        method = self._parser.get_method().decode()
        query = parse_qsl(url.query, keep_blank_values=True)
        asked = Asked(method, url.path, query, self._headers, bytes(self._body))
        self._url, self._headers, self._body = b"", {}, bytearray()
        task = asyncio.get_running_loop().create_task(self._answer(asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, asked: Asked) -> None:
        async with self._turn:
            fake = self._fake
            fake.note(asked)
            fault = fake.next_fault()
            if fault is None:
                self._send(await fake.answered(asked))
            else:
                await self._fail(fault, asked)

    async def _fail(self, fault: Fault, asked: Asked) -> None:
        if fault.kind == "hang":
            await asyncio.sleep(3600)
        elif fault.kind == "reset":
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        elif fault.kind == "500":
            self._send(Answer(500, b"Internal Server Error", kind="text/plain"))
        elif fault.kind in ("429", "quota", "auth"):
            answer = self._fake.refusal(fault)
            if fault.retry_after_s is not None:
                answer.headers["Retry-After"] = f"{fault.retry_after_s:g}"
            self._send(answer)
        else:
            await self._spoil(fault.kind, await self._fake.answered(asked))

    async def _spoil(self, kind: str, answer: Answer) -> None:
        if kind == "garbage":
            self._send(Answer(200, b"\x00\xff\x13 neither this nor that", kind=answer.kind))
        elif kind == "wrong_type":
            self._send(Answer(200, b"\x89PNG\r\n\x1a\n" + bytes(64), kind="image/png"))
        elif kind == "empty":
            self._send(Answer(200, b"", kind=answer.kind))
        elif kind == "truncated":
            self._transport.write(_head(answer) + answer.body[: len(answer.body) // 2])
            self._transport.close()
        else:
            self._transport.write(_head(answer))
            step = max(1, len(answer.body) // PIECES)
            for start in range(0, len(answer.body), step):
                await asyncio.sleep(DRIP_S)
                self._transport.write(answer.body[start : start + step])

    def _send(self, answer: Answer) -> None:
        self._transport.write(_head(answer) + answer.body)


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} Fake", f"Content-Type: {answer.kind}", f"Content-Length: {len(answer.body)}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
