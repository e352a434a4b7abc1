"""The seams to the network as a tape sees them: text search, image search, pages, and models over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic import TypeAdapter

from vlagent.chat.base import ChatModel, ChatReply, ChatRequest, ImagePart, NativeCall, Part, TextPart
from vlagent.search.base import ImageQuery, ImageSearch, Page, PageReader, TextQuery, TextSearch, closed
from vlagent.search.cache.tape import Tape, picture_key
from vlagent.types import Hit, Record, Usage

HITS = TypeAdapter(list[Hit])
PAGE = TypeAdapter(Page)


class TapedText:
    """A `TextSearch`; the inner one may be None in a replay."""

    def __init__(self, tape: Tape, name: str, inner: TextSearch | None) -> None:
        self._tape, self._name, self._inner = tape, name, inner

    async def search(self, query: TextQuery) -> list[Hit]:
        """As the inner one."""
        return await self._tape.through(
            f"text search {self._name}", query.model_dump_json(), lambda: _made(self._inner).search(query), HITS
        )


class TapedImages:
    """An `ImageSearch`; pictures are known by their content, thumbnails lie in the recording."""

    def __init__(self, tape: Tape, name: str, inner: ImageSearch | None) -> None:
        self._tape, self._name, self._inner = tape, name, inner

    async def search(self, query: ImageQuery) -> list[Hit]:
        """As the inner one."""
        key = await asyncio.to_thread(picture_key, query.image)

        async def make() -> list[Hit]:
            return self._tape.hits(await _made(self._inner).search(query))

        request = json.dumps({"picture": key, "top_k": query.top_k})
        return await self._tape.through(f"image search {self._name}", request, make, HITS)


class TapedPages:
    """A `PageReader`."""

    def __init__(self, tape: Tape, inner: PageReader | None) -> None:
        self._tape, self._inner = tape, inner

    async def read(self, url: str) -> Page:
        """As the inner one."""
        return await self._tape.through("page", url, lambda: _made(self._inner).read(url), PAGE)


class _Reply(Record):
    """What is kept of a model's reply: not its tokens, which no model over HTTP gives, and not its timing."""

    text: str
    finish_reason: Any = "stop"
    calls: tuple[tuple[str, str, str], ...] = ()
    usage: Usage = Usage()


_REPLY = TypeAdapter(_Reply)


class TapedChat:
    """A `ChatModel` over HTTP."""

    def __init__(self, tape: Tape, inner: ChatModel, role: str) -> None:
        """`role` says what it is asked for (policy, judge, summary)."""
        self._tape, self._inner, self._role = tape, inner, role
        self.name = inner.name

    async def complete(self, request: ChatRequest) -> ChatReply:
        """As the inner one."""

        async def make() -> _Reply:
            said = await self._inner.complete(request)
            calls = tuple((call.id, call.name, call.arguments) for call in said.calls)
            return _Reply(text=said.text, finish_reason=said.finish_reason, calls=calls, usage=said.usage)

        kept = await self._tape.through(f"{self._role} {self.name}", chat_key(request), make, _REPLY)
        calls = tuple(NativeCall(*call) for call in kept.calls)
        return ChatReply(kept.text, kept.finish_reason, calls, usage=kept.usage)

    async def aclose(self) -> None:
        """Close the inner one."""
        await closed(self._inner)


class Absent:
    """The name of a model that is not there: a replay does not need it."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Never called."""
        raise AssertionError(f"a replay asked {self.name} for {request.key}")


def chat_key(request: ChatRequest) -> str:
    """What a reply depends on. Pictures count by their region and size: their files may lie elsewhere."""
    messages = [
        [message.role, [_part(part) for part in message.parts], [[c.name, c.arguments] for c in message.calls]]
        for message in request.messages
    ]
    sampling = request.sampling.model_dump(exclude_defaults=True)
    return json.dumps([list(request.key), messages, sampling, list(request.stop)], ensure_ascii=False)


def _part(part: Part) -> Any:
    if isinstance(part, TextPart):
        return part.text
    assert isinstance(part, ImagePart)
    return [part.ref.width, part.ref.height, part.ref.box, part.view]


def _made(inner: Any) -> Any:
    assert inner is not None, "a recording needs the service itself"
    return inner
