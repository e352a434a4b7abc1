"""What a tool is, and the one place that assigns fault."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticSerializationError

from vlagent.errors import ServiceError, ToolInputError, TransientError, UserError
from vlagent.search.base import SearchServices
from vlagent.types import Fault, Hit, ImageRef, Observation, Sample, Source


class Arguments(BaseModel):
    """Base of a tool's argument model: its JSON schema is what the model is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass
class ToolContext:
    """What a tool may look at while it runs."""

    sample: Sample
    images: list[ImageRef]
    """Every picture that has entered the context, by its number."""
    search: SearchServices
    top_k: int = 5
    """Results that a search returns at most."""
    crop_source: str = "original"
    """`original`: crops come from the file at full resolution; `view`: from the picture as the model saw it."""
    views: list[tuple[int, int]] = field(default_factory=list)
    """The (width, height) at which each picture of `images` was shown."""
    min_pixels: int = 65_536
    """A crop is enlarged to at least this many pixels in the model's view."""
    folder: Path | None = None
    """Where a tool may leave pictures (the run's images/); None keeps nothing."""
    hits: list[Hit] = field(default_factory=list)
    """Every hit of the episode so far, for tools that open one (`table`)."""


@dataclass(frozen=True)
class ToolOutput:
    """What a tool found."""

    text: str
    images: tuple[ImageRef, ...] = ()
    sources: tuple[Source, ...] = ()
    hits: tuple[Hit, ...] = ()
    degraded: bool = False


class Tool(Protocol):
    """One thing that the agent can do.

    `run` raises `ToolInputError` where the call is wrong (the model's fault, its message is shown to the model) and
    `ServiceError` where the service failed (the world's). Anything else is a bug and ends the program.
    """

    name: ClassVar[str]
    description: ClassVar[str]
    arguments: ClassVar[type[Arguments]]

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutput: ...


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a tool's world fault is retried."""

    attempts: int = 3
    wait_s: float = 0.2
    """Before the second attempt; doubles each time up to `max_wait_s`; `retry_after_s` of the service wins."""
    timeout_s: float = 60.0
    """Of one attempt; waiting for a free slot does not count."""
    max_wait_s: float = 30.0
    """A service that asks for a longer pause is given up on at once."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.timeout_s <= 0 or self.wait_s < 0 or self.max_wait_s < 0:
            raise UserError(f"{self}: attempts and timeout_s must be positive, waits must not be negative")


Gate = AbstractAsyncContextManager[object]
"""A slot to hold while a tool runs (a semaphore); reusable."""


async def run_tool(
    tool: Tool, arguments: Any, context: ToolContext, retry: RetryPolicy, gate: Gate | None = None
) -> Observation:
    """Run one valid call; every outcome is an observation with its fault.

    World faults are retried by `retry`, each attempt in a slot of `gate`. Raises nothing but bugs and cancellation.
    """
    started = time.monotonic()
    failure = ""
    for attempt in range(retry.attempts):
        outcome = await _attempt(tool, arguments, context, retry.timeout_s, gate or nullcontext())
        spent = {"latency_s": time.monotonic() - started, "retries": attempt}
        if isinstance(outcome, ToolOutput):
            return _storable(_found(outcome, spent))
        if isinstance(outcome, ToolInputError):
            return _storable(Observation(text=str(outcome), fault=Fault.MODEL, **spent))
        failure = _one_line(str(outcome))
        pause = _pause_s(outcome, attempt, retry)
        if pause is None:
            break
        await asyncio.sleep(pause)
    return _storable(Observation(text=f"{tool.name} is unavailable ({failure}).", fault=Fault.WORLD, **spent))


async def _attempt(
    tool: Tool, arguments: Any, context: ToolContext, timeout_s: float, gate: Gate
) -> ToolOutput | ToolInputError | ServiceError:
    async with gate:
        try:
            async with asyncio.timeout(timeout_s):
                return await tool.run(arguments, context)
        except (ToolInputError, ServiceError) as error:
            return error
        except TimeoutError:
            return TransientError(tool.name, f"no answer within {timeout_s:g} s")


def _found(output: ToolOutput, spent: dict[str, Any]) -> Observation:
    return Observation(
        text=output.text,
        images=output.images,
        sources=output.sources,
        hits=output.hits,
        degraded=output.degraded,
        **spent,
    )


def _storable(observation: Observation) -> Observation:
    """Without the lone surrogates that broken pages and files bring: no JSON record can hold them."""
    try:
        observation.model_dump_json()
    except PydanticSerializationError:
        raw = json.dumps(observation.model_dump(), ensure_ascii=False).encode("utf-8", "replace")
        return Observation.model_validate_json(raw)
    return observation


def _one_line(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _pause_s(error: ServiceError, attempt: int, retry: RetryPolicy) -> float | None:
    """Seconds until the next attempt; None when there is to be none."""
    if not error.retryable or attempt + 1 >= retry.attempts:
        return None
    if error.retry_after_s is None:
        return min(retry.wait_s * 2.0**attempt, retry.max_wait_s)
    return error.retry_after_s if error.retry_after_s <= retry.max_wait_s else None
