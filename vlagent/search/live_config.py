"""How the live web is searched: one TOML, given to `--search`."""

from __future__ import annotations

import os
from typing import Literal, Self

from pydantic import Field, model_validator

from vlagent.search.budget import BudgetConfig
from vlagent.search.cache.store import CacheConfig
from vlagent.search.pages.config import PageConfig
from vlagent.search.web.base import ProviderConfig
from vlagent.types import Record

SUMMARISER_NAMES = ("VLAGENT_SUMMARISER_URL", "SUMMARIZER_BASE_URL")
RETRIEVAL_NAMES = ("VLAGENT_RETRIEVAL_URL", "LOCAL_DATABASE_ADDRESS")
"""Environment variables that users have already; a value in the file wins."""


class TextConfig(ProviderConfig):
    """Where text is searched."""

    provider: Literal["serper", "searxng", "brave", "tavily", "retrieval", "server", "local", "none"] = "none"
    """`retrieval` is a server with the Search-R1 contract, `server` is one of ours, `local` the index in `folder`."""
    read_pages: bool = True
    """Read the page behind each result; else the snippets are all there is."""


class ImageConfig(ProviderConfig):
    """Where pictures are searched."""

    provider: Literal["serper_lens", "serpapi", "server", "local", "none"] = "none"
    publish_folder: str | None = None
    """A folder that a web server shows at `publish_url`: pictures lie there while they are searched for."""
    publish_url: str | None = None
    """Without a folder: pictures are `PUT` below this address and deleted again."""
    thumbnails: str | None = None
    """A folder for the small pictures of results; None is beside the cache."""


class SummaryConfig(Record):
    """Who condenses what was found."""

    model: str | None = None
    """As an OpenAI-compatible endpoint knows it; None copies sentences (needs no model, invents nothing)."""
    base_url: str | None = None
    max_tokens: int = Field(default=512, ge=1)
    timeout_s: float = Field(default=20.0, gt=0)
    """Of each of the two stages, all attempts together. Search, pages and both stages end within a tool's 60 s."""
    attempts: int = Field(default=2, ge=1)
    usd_per_million_prompt_tokens: float = Field(default=0.0, ge=0)
    usd_per_million_completion_tokens: float = Field(default=0.0, ge=0)


class NoiseConfig(Record):
    """What is looked for in what was found; each is a switch."""

    contradictions: bool = False
    """Flag results that state different values for what is asked."""
    grounding: bool = False
    """Say so where a query names nothing of what was read from the picture."""
    entities: bool = False
    """Results about a namesake of what is asked about go last, flagged."""


class LiveConfig(Record):
    """What is searched, read, condensed, kept and spent."""

    folder: str | None = None
    """A search folder made by `vlagent index`, for the providers `local`."""
    text: TextConfig = TextConfig()
    images: ImageConfig = ImageConfig()
    pages: PageConfig = PageConfig()
    summary: SummaryConfig = SummaryConfig()
    cache: CacheConfig | None = CacheConfig()
    """`cache = false` in the file keeps nothing, not even for this process."""
    budget: BudgetConfig = BudgetConfig()
    noise: NoiseConfig = NoiseConfig()

    @model_validator(mode="before")
    @classmethod
    def _no_cache(cls, table: object) -> object:
        if isinstance(table, dict) and table.get("cache") is False:
            return {**table, "cache": None}
        return table

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Self:
        local = [name for name in ("text", "images") if getattr(self, name).provider == "local"]
        if local and not self.folder:
            raise ValueError(f'{local[0]}.provider = "local" needs folder = "DIR" (vlagent index makes it)')
        if self.images.provider in ("serper_lens", "serpapi") and not self.images.publish_url:
            raise ValueError(f"images.provider = {self.images.provider!r} needs images.publish_url (and a folder)")
        return self


def first_of(names: tuple[str, ...]) -> str | None:
    """The first of these environment variables that is set."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
