"""What stands behind a score besides its settings: when, where, with which versions and which search.

A line for each start of an evaluation, so that a run that was resumed elsewhere says so.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from vlagent.agent.episode import Agent
from vlagent.bench.config import FREE, EvalConfig
from vlagent.files import append_jsonl, read_records, sha256_of
from vlagent.rewards.judge import RULES
from vlagent.types import Record
from vlagent.version import VERSION

PROVENANCE = "provenance.jsonl"
PACKAGES = ("pydantic", "pillow", "numpy", "httpx", "opencv-python-headless", "tantivy", "torch", "transformers")
"""Those that can move a score; the last two only where they are loaded."""
LAZY = {"torch": "torch", "transformers": "transformers"}


class Start(Record):
    """One start of an evaluation."""

    version: Literal[1] = 1
    started: str
    """UTC, ISO 8601: the date of a live search."""
    vlagent: str
    python: str
    machine: str
    packages: dict[str, str]
    endpoint: str | None
    """Host and port of the model; never a key."""
    judge_endpoints: tuple[str, ...]
    search: dict[str, str]
    """Service -> what it is (`text: TextIndex`, ...)."""
    search_digest: str | None
    """Of the index's own description, where the search is a folder."""


class Hashes(Record):
    """SHA-256, the first sixteen digits: equal where the same was asked in the same way of the same data."""

    config: str
    data: str
    """Of samples.jsonl."""
    prompts: tuple[str, ...]
    """Of every system prompt that was used."""
    judge_rules: str | None


def record_start(run: Path, config: EvalConfig, agent: Agent) -> None:
    """Append this start to the run folder."""
    loaded = [name for name in PACKAGES if name not in LAZY or LAZY[name] in sys.modules]
    services = {name: getattr(agent.search, name) for name in ("text", "images", "pages", "summariser")}
    start = Start(
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        vlagent=VERSION,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}",
        packages={name: found for name in loaded if (found := _version(name))},
        endpoint=_host(config.base_url),
        judge_endpoints=tuple(filter(None, (_host(url) for url in (config.judge_base_url or "").split(",")))),
        search={name: type(service).__name__ for name, service in services.items() if service is not None},
        search_digest=_digest_of_search(config.search),
    )
    append_jsonl(run / PROVENANCE, start)


def read_starts(run: Path) -> tuple[Start, ...]:
    """Every start of a run folder, first to last."""
    return tuple(read_records(run / PROVENANCE, Start))


def hashes_of(run: Path, config: EvalConfig, prompts: Iterable[str]) -> Hashes:
    """The hashes of a run folder; `prompts` are the system prompts of its episodes."""
    return Hashes(
        config=_short(config.model_dump_json(exclude=set(FREE))),
        data=sha256_of(run / "samples.jsonl")[:16],
        prompts=tuple(sorted(_short(text) for text in set(prompts) if text)),
        judge_rules=_short(RULES) if config.judges else None,
    )


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _host(url: str | None) -> str | None:
    return urlsplit(url.strip()).netloc.rpartition("@")[2] or None if url else None


def _digest_of_search(search: str | None) -> str | None:
    folder = Path(search) if search else None
    if folder is None or not folder.exists():
        return None
    if folder.is_file():
        return sha256_of(folder)[:16]
    markers = sorted(folder.glob("*/vlagent-index.json"))
    return _short("".join(marker.read_text() for marker in markers)) if markers else None
