"""Small real parts of an agent: models that react to what they are sent, tools over drawn pictures and a shelf."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from PIL import Image

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import ServiceError, ToolInputError
from vlagent.search.base import SearchServices
from vlagent.tools.base import Arguments, RetryPolicy, ToolContext, ToolOutput
from vlagent.types import Hit, ImageRef, Sample, Source

Decide = Callable[[ChatRequest], "str | ChatReply | Exception"]


def call(name: str, think: str = "so", **arguments: Any) -> str:
    """A turn of the default dialect with a tool call."""
    return f"<think>{think}</think><tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def answer(text: str, think: str = "so") -> str:
    return f"<think>{think}</think><answer>{text}</answer>"


class Policy:
    """A model that is a function of the request; it remembers what it was sent."""

    name = "policy"

    def __init__(self, decide: Decide, wait_s: float = 0.0) -> None:
        self.decide = decide
        self.wait_s = wait_s
        self.requests: list[ChatRequest] = []
        self.busy = self.peak = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        try:
            await asyncio.sleep(self.wait_s)
        finally:
            self.busy -= 1
        said = self.decide(request)
        if isinstance(said, Exception):
            raise said
        return ChatReply(said) if isinstance(said, str) else said


def lines(*texts: str | ChatReply | Exception) -> Decide:
    """Plays the line of the turn that the request is for; the last one for ever."""
    return lambda request: texts[min(turn_of(request), len(texts) - 1)]


def turn_of(request: ChatRequest) -> int:
    return sum(message.role == "assistant" for message in request.messages)


def last_text(request: ChatRequest) -> str:
    return request.messages[-1].text


class Words(Arguments):
    query: str


class Shelf:
    """A text search over a dict; `faults` come first, one a run; None is a run that goes well."""

    name: ClassVar[str] = "text_search"
    description: ClassVar[str] = "Looks up words."
    arguments: ClassVar[type[Arguments]] = Words

    def __init__(self, pages: dict[str, str] | None = None, faults: list[Exception | None] | None = None) -> None:
        self.pages = pages or {"castore": "Castore was founded in 2015."}
        self.faults = list(faults or [])
        self.wait_s = 0.0
        self.runs: list[str] = []
        self.busy = self.peak = 0

    async def run(self, arguments: Words, context: ToolContext) -> ToolOutput:
        self.runs.append(arguments.query)
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        try:
            await asyncio.sleep(self.wait_s)
        finally:
            self.busy -= 1
        fault = self.faults.pop(0) if self.faults else None
        if fault:
            raise fault
        if arguments.query == "forbidden":
            raise ToolInputError("query 'forbidden' is not allowed")
        found = [(title, text) for title, text in self.pages.items() if title in arguments.query]
        hits = tuple(Hit(source=Source(title=title, file=f"{title}.txt"), text=text) for title, text in found)
        text = "\n".join(f"{title}: {text}" for title, text in found) or "No results."
        return ToolOutput(text, sources=tuple(hit.source for hit in hits), hits=hits[: context.top_k])


class Region(Arguments):
    bbox: list[float]
    image_index: int


class Cut:
    """Crops by address, mapped back to the source."""

    name: ClassVar[str] = "image_crop"
    description: ClassVar[str] = "Cuts a region out."
    arguments: ClassVar[type[Arguments]] = Region

    async def run(self, arguments: Region, context: ToolContext) -> ToolOutput:
        if arguments.image_index >= len(context.images):
            raise ToolInputError(f"no image {arguments.image_index}")
        ref = context.images[arguments.image_index]
        left, top = (ref.box or (0, 0))[:2]
        x1, y1, x2, y2 = arguments.bbox
        box = (
            left + round(x1 * ref.width / 1000),
            top + round(y1 * ref.height / 1000),
            left + round(x2 * ref.width / 1000),
            top + round(y2 * ref.height / 1000),
        )
        region = ImageRef(path=ref.path, width=box[2] - box[0], height=box[3] - box[1], box=box)
        await asyncio.sleep(0)
        return ToolOutput(f"{region.width} x {region.height} pixels", images=(region,))


class Which(Arguments):
    image_index: int = 0


class Twins:
    """An image search that knows two pages about every picture, the second without a thumbnail."""

    name: ClassVar[str] = "image_search"
    description: ClassVar[str] = "Looks up a picture."
    arguments: ClassVar[type[Arguments]] = Which

    def __init__(self, thumbnail: ImageRef, title: str = "castore", fault: ServiceError | None = None) -> None:
        self.thumbnail = thumbnail
        self.title = title
        self.fault = fault
        self.searched: list[ImageRef] = []

    async def run(self, arguments: Which, context: ToolContext) -> ToolOutput:
        self.searched.append(context.images[arguments.image_index])
        await asyncio.sleep(0)
        if self.fault:
            raise self.fault
        hits = (
            Hit(source=Source(title=self.title, url="https://a.example/1"), thumbnail=self.thumbnail),
            Hit(source=Source(title="other", url="https://a.example/2")),
        )
        sources = tuple(hit.source for hit in hits)
        return ToolOutput(f"1. {self.title}\n2. other", images=(self.thumbnail,), sources=sources, hits=hits)


class Nothing(Arguments):
    pass


class Peek:
    """Remembers what it was given to work with."""

    name: ClassVar[str] = "peek"
    arguments: ClassVar[type[Arguments]] = Nothing

    def __init__(self, description: str = "Looks.") -> None:
        self.description = description
        self.seen: list[ToolContext] = []

    async def run(self, arguments: Nothing, context: ToolContext) -> ToolOutput:
        self.seen.append(replace(context, hits=list(context.hits), views=list(context.views)))
        return ToolOutput("seen")


def picture(folder: Path, name: str = "photo.png", size: tuple[int, int] = (400, 300)) -> ImageRef:
    path = folder / name
    Image.new("RGB", size, "teal").save(path)
    return ImageRef(path=str(path), width=size[0], height=size[1])


QUICK = RetryPolicy(attempts=2, wait_s=0.0, timeout_s=5.0)


def make_agent(model: Any, *tools: Any, **config: Any) -> Agent:
    """An agent with exactly these tools."""
    named = {tool.name: tool for tool in tools}
    parts = {key: config.pop(key) for key in ("hook", "watch", "retry", "folder") if key in config}
    settings = AgentConfig(**{"tools": tuple(named), **config})
    return Agent(model, settings, named, SearchServices(), **{"retry": QUICK, **parts})


def sample(id: str = "s1", **fields: Any) -> Sample:
    return Sample(**{"id": id, "source": "test", "question": "When was it founded?", **fields})
