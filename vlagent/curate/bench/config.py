"""The rules of one benchmark: `bench.toml` in its folder, written with these values at the first collect."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from vlagent.config import load_config
from vlagent.files import write_atomic
from vlagent.types import Record

FILE = "bench.toml"
DOMAINS = (
    *("Sports", "Entertainment & Culture", "Science & Technology", "Business & Finance", "Games"),
    *("Geography & Travel", "Academic Research", "Others"),
)
"""Those of HR-MMSearch."""
TOOLS = ("image_crop", "text_search", "image_search")


class Host(Record):
    """What was agreed with, or read in the terms of, one site."""

    licence: str
    terms: str = ""
    """Where that stands: an address, or a note on the agreement."""


class CollectRules(Record):
    """What may be taken from the web."""

    licences: tuple[str, ...] = ("CC0*", "CC BY*", "CC-BY*", "Public domain*", "*creativecommons.org/*")
    """Patterns; a picture whose licence fits none of them, or is unknown, is refused. Case is ignored."""
    hosts: dict[str, Host] = Field(default_factory=dict)
    """Sites whose terms permit it. Their licence counts where a picture brings none of its own."""
    pause_s: float = Field(default=1.0, ge=0)
    """Between two requests to one site."""
    max_mb: float = Field(default=60.0, gt=0)
    """Of one picture."""
    most: int = Field(default=1000, ge=1)
    """Addresses of one feed or sitemap, of the sitemaps that it names too; the rest is not looked at."""
    user_agent: str = "vlagent"
    allow: tuple[str, ...] = ()
    """Hosts of a private network that may be read."""
    ports: tuple[int, ...] = (80, 443)


class FilterRules(Record):
    """Which pictures are worth a question."""

    long_side: int = Field(default=3840, ge=1)
    """Pixels at least: 4K, as in HR-MMSearch."""
    short_side: int = Field(default=2000, ge=1)
    after: str = ""
    """ISO date: older pictures, which models may have been trained on, are refused."""
    before: str = ""
    undated: Literal["keep", "refuse"] = "keep"
    """Only asked where `after` or `before` is set."""
    sharpness: float = Field(default=6.0, ge=0)
    small: int = Field(default=1, ge=0)
    """Small objects or words that must be in it."""
    small_by: Literal["detail", "ocr"] = "detail"
    """How they are found: compact regions of strong contrast, or words read by the extra `vlagent[ocr]`."""

    @field_validator("after", "before")
    @classmethod
    def _is_a_date(cls, value: str) -> str:
        from datetime import date

        if value:
            date.fromisoformat(value)
        return value


class BenchConfig(Record):
    """All rules of one benchmark."""

    name: str = Field(default="my-bench", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    version: str = "1.0"
    licence: str = "CC BY 4.0"
    """Of the questions; each picture keeps its own."""
    domains: tuple[str, ...] = Field(default=DOMAINS, min_length=1)
    tools: tuple[str, ...] = Field(default=TOOLS, min_length=1)
    object_share: float = Field(default=0.05, gt=0, le=1)
    """Part of the picture that the asked-for object may cover."""
    reviews: int = Field(default=2, ge=0)
    """Agreeing reviewers, none of them the author, that a question needs."""
    tries: int = Field(default=4, ge=1)
    """Answers without the picture, and without tools, that must all be wrong."""
    k: int = Field(default=8, ge=1)
    """Answers with tools; a question is hard if none is right."""
    collect: CollectRules = CollectRules()
    filter: FilterRules = FilterRules()


def read_config(folder: Path) -> BenchConfig:
    """The rules of a benchmark. `UserError` names a wrong key; without a file the defaults count."""
    path = folder / FILE
    return load_config(BenchConfig, path) if path.exists() else BenchConfig(name=_name_of(folder))


def write_default(folder: Path) -> None:
    """Write the rules for the user to change, unless they are there."""
    if not (folder / FILE).exists():
        write_atomic(folder / FILE, _TEMPLATE.format(name=_name_of(folder), domains=_listed(DOMAINS)))


def _name_of(folder: Path) -> str:
    name = "".join(letter if letter.isalnum() or letter in "_.-" else "-" for letter in folder.resolve().name)
    return name.lstrip("_.-") if name.isascii() and name.lstrip("_.-") else "my-bench"


def _listed(names: tuple[str, ...]) -> str:
    return "[\n" + "".join(f'  "{name}",\n' for name in names) + "]"


_TEMPLATE = """\
# The rules of this benchmark. Each stage reads them when it starts; vlagent curate bench --help lists the stages.
name = "{name}"
version = "1.0"
licence = "CC BY 4.0"          # of the questions; each picture keeps its own
domains = {domains}
tools = ["image_crop", "text_search", "image_search"]
object_share = 0.05            # of the picture, at most, for the asked-for object
reviews = 2                    # agreeing reviewers that a question needs
tries = 4                      # answers without picture, and without tools, that must all be wrong
k = 8                          # answers with tools: a question is hard if none is right

[collect]
licences = ["CC0*", "CC BY*", "CC-BY*", "Public domain*", "*creativecommons.org/*"]
pause_s = 1.0                  # between two requests to one site
# [collect.hosts."example.org"]  # a site whose terms permit it, for pictures that bring no licence of their own
# licence = "CC BY 4.0"
# terms = "https://example.org/terms, read on 2026-01-31"

[filter]
long_side = 3840
short_side = 2000
after = ""                     # ISO date, such as "2025-01-01"
before = ""
undated = "keep"               # or "refuse"
sharpness = 6.0
small = 1                      # small objects or words that must be in it
small_by = "detail"            # or "ocr" (pip install 'vlagent[ocr]')
"""
