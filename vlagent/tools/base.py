"""What a tool is, and the one place that assigns fault."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict

from vlagent.errors import ServiceError, ToolInputError
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
    """Before the second attempt; doubles each time; `retry_after_s` of the service wins."""
    timeout_s: float = 60.0
    """Of one attempt."""


async def run_tool(tool: Tool, arguments: Any, context: ToolContext, retry: RetryPolicy) -> Observation:
    """Run one valid call; every outcome is an observation with its fault."""
    started = time.monotonic()
    failure: ServiceError | TimeoutError | None = None
    for attempt in range(retry.attempts):
        try:
            async with asyncio.timeout(retry.timeout_s):
                output = await tool.run(arguments, context)
        except ToolInputError as error:
            return Observation(
                text=str(error), fault=Fault.MODEL, latency_s=time.monotonic() - started, retries=attempt
            )
        except (ServiceError, TimeoutError) as error:
            failure = error
            if isinstance(error, ServiceError) and not error.retryable:
                break
            if attempt + 1 < retry.attempts:
                await asyncio.sleep(_wait(error, attempt, retry))
        else:
            return Observation(
                text=output.text,
                images=output.images,
                sources=output.sources,
                hits=output.hits,
                degraded=output.degraded,
                latency_s=time.monotonic() - started,
                retries=attempt,
            )
    why = str(failure) if isinstance(failure, ServiceError) else f"no answer within {retry.timeout_s:g} s"
    return Observation(
        text=f"{tool.name} is unavailable ({why}).",
        fault=Fault.WORLD,
        latency_s=time.monotonic() - started,
        retries=attempt,
    )


def _wait(error: ServiceError | TimeoutError, attempt: int, retry: RetryPolicy) -> float:
    asked = error.retry_after_s if isinstance(error, ServiceError) else None
    return asked if asked is not None else retry.wait_s * 2.0**attempt
