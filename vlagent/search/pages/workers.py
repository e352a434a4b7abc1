"""Extraction off the event loop, in processes that can be killed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque

from vlagent.errors import PermanentError, TransientError
from vlagent.search.pages.extract import Extracted, NotText, extract
from vlagent.search.pages.fetch import Fetched
from vlagent.search.pages.worker import LENGTHS, frame

_BROKEN = (asyncio.IncompleteReadError, BrokenPipeError, ConnectionError)


class Workers:
    """`count` processes, started when they are needed; 0 works in threads."""

    def __init__(self, count: int, max_chars: int) -> None:
        self._count = count
        self._max_chars = max_chars
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(max(1, count))
        self._idle: deque[asyncio.subprocess.Process] = deque()

    async def extract(self, page: Fetched) -> Extracted:
        """Raises `PermanentError` for what cannot be read. A worker that dies under a page gets a second try.

        Cancellation (a page's deadline) kills the worker that is busy with it.
        """
        if not self._count:
            try:
                return await asyncio.to_thread(extract, page.data, page.content_type, page.charset, self._max_chars)
            except NotText as error:
                raise PermanentError("page", f"{page.url}: {error}") from None
        self._bind()
        async with self._slots:
            for _ in range(2):
                try:
                    return await self._asked(page)
                except _BROKEN:
                    continue
        raise PermanentError("page", f"{page.url}: reading it ends the reader (too large, or made to)")

    async def aclose(self) -> None:
        """End the processes."""
        idle, self._idle = self._idle, deque()
        if self._loop is not asyncio.get_running_loop():
            return
        for worker in idle:
            if worker.returncode is None:
                worker.kill()
        await asyncio.gather(*(worker.wait() for worker in idle))

    def _bind(self) -> None:
        """Processes belong to one event loop; those of another end with their pipes."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._idle, self._slots = loop, deque(), asyncio.Semaphore(max(1, self._count))

    async def _asked(self, page: Fetched) -> Extracted:
        worker = self._idle.popleft() if self._idle else await self._start()
        head = {"content_type": page.content_type, "charset": page.charset, "max_chars": self._max_chars}
        try:
            answer = await _exchange(worker, frame(head, page.data))
        except BaseException:
            if worker.returncode is None:
                worker.kill()
            raise
        self._idle.append(worker)
        if "refused" in answer:
            raise PermanentError("page", f"{page.url}: {answer['refused']}")
        return Extracted(str(answer["title"]), str(answer["text"]), bool(answer["needs_javascript"]))

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "vlagent.search.pages.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            raise TransientError("page", f"a reader cannot be started ({error.strerror})") from error


async def _exchange(worker: asyncio.subprocess.Process, message: bytes) -> dict[str, object]:
    assert worker.stdin
    assert worker.stdout
    worker.stdin.write(message)
    await worker.stdin.drain()
    head, _ = LENGTHS.unpack(await worker.stdout.readexactly(LENGTHS.size))
    answer: dict[str, object] = json.loads(await worker.stdout.readexactly(head))
    return answer
