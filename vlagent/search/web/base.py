"""What a search provider is, and how it is set up."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from vlagent.types import Record


@dataclass(frozen=True)
class Capabilities:
    """What a provider can do and what it costs."""

    max_results: int
    """Of one query."""
    full_text: bool = False
    """Its hits hold the passage itself: no page has to be read."""
    usd_per_call: float = 0.0
    """List price; 0 is free, and then no budget counts it."""
    key_names: tuple[str, ...] = ()
    """Environment variables that hold the key, ours first; empty where none is needed."""
    takes_image_url: bool = False
    """An image search that wants the picture at a public address."""


class ProviderConfig(Record):
    """How a provider is called. Keys come from the environment only."""

    base_url: str | None = None
    """None is the provider's own."""
    timeout_s: float = Field(default=8.0, gt=0)
    """Of one query, all attempts together."""
    attempts: int = Field(default=3, ge=1)
    wait_s: float = Field(default=0.3, ge=0)
    """Before the second attempt, with jitter; doubles each time. `Retry-After` wins."""
    requests_per_second: float | None = Field(default=None, gt=0)
    extra: dict[str, str | int | float | bool] = Field(default_factory=dict)
    """More parameters of the query, as the provider knows them (`gl`, `hl`, `engines`, ...)."""
