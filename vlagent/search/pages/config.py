"""How pages are read."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import Field, field_validator

from vlagent.types import Record


class PageConfig(Record):
    """How pages are read."""

    timeout_s: float = Field(default=10.0, gt=0)
    """Of one page, redirects, rendering and extraction included."""
    max_bytes: int = Field(default=5_000_000, gt=0)
    """Of one page after decompression; a longer one is cut there (a PDF is refused)."""
    max_chars: int = Field(default=30_000, gt=0)
    """Characters of text that are kept of one page."""
    redirects: int = Field(default=5, ge=0)
    concurrency: int = Field(default=64, ge=1)
    """Pages at one time."""
    robots: bool = True
    """Obey robots.txt."""
    user_agent: str = Field(default="vlagent", pattern=r"^[!-~]([ -~]*[!-~])?$")
    """Sent to sites, and looked up in their robots.txt."""
    javascript: Literal["never", "auto", "always"] = "auto"
    """Chromium: never, where a page shows next to nothing without it, or for every page."""
    chromium: str | None = None
    """Its executable; by default the one on the PATH, then Playwright's own."""
    browsers: int = Field(default=1, ge=1)
    """Each takes 300-500 MB."""
    tabs: int = Field(default=4, ge=1)
    """Pages at one time in one browser."""
    recycle_after: int = Field(default=100, ge=1)
    """Pages after which a browser is replaced."""
    workers: int = Field(default=1, ge=0)
    """Processes that turn bytes into text; 0 does it in threads, which cannot be killed."""
    ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = (80, 443)
    allow: tuple[str, ...] = ()
    """Hosts (`wiki.corp`, `wiki.corp:8080`) and networks (`10.1.0.0/16`) that are read though they are private."""

    @field_validator("allow")
    @classmethod
    def _can_match(cls, allow: tuple[str, ...]) -> tuple[str, ...]:
        """An entry that no address can ever match would be refused later without a word."""
        for entry in allow:
            if "/" not in entry:
                continue
            try:
                ipaddress.ip_network(entry)
            except ValueError as error:
                raise ValueError(
                    f"{entry!r} is neither a host (wiki.corp, wiki.corp:8080) nor a network ({error})"
                ) from None
        return allow
