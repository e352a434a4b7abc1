"""What judges said, kept: a line an opinion, so that a verdict is paid for once and can be held against another's."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from vlagent.files import append_jsonl, read_records
from vlagent.types import Record, Sample, Usage

OPINIONS = "judgements.jsonl"
"""In a run folder."""


class Verdict(Record):
    """Yes, no, or None where the judge gave no verdict in the fixed form."""

    right: bool | None
    why: str = ""
    """The end of what the judge wrote."""


class Marker(Protocol):
    """Says whether an open answer is right: a model, several of them, or rules of our own."""

    @property
    def usage(self) -> Usage:
        """Of all its calls in this process."""
        ...

    async def verdict(self, sample: Sample, answer: str) -> Verdict:
        """Raises `ServiceError` where it cannot be reached; never guesses."""
        ...


class Opinion(Record):
    """One answer to one question, marked by one judge."""

    version: Literal[1] = 1
    key: str
    """Of the judge's model, its settings and all that it was shown."""
    judge: str
    sample_id: str
    answer: str
    verdict: Verdict
    failure: str = ""
    """The service's failure, where there is no verdict because of one."""
    cached: bool = False
    """Taken from an earlier opinion: nothing was asked."""
    attempts: int = 0
    usage: Usage = Usage()
    latency_s: float = 0.0


class _Cached(Record):
    """A line of a cache that runs share."""

    key: str
    verdict: Verdict


@dataclass
class OpinionBook:
    """Verdicts by key, from the run's own opinions and from a cache that other runs share."""

    log: Path | None = None
    """Every opinion of this run, the cached ones too."""
    cache: Path | None = None
    """Verdicts only; several runs may write it."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cache is not None:
            self.verdicts |= {entry.key: entry.verdict for entry in read_records(self.cache, _Cached)}
        if self.log is not None:
            known = read_records(self.log, Opinion)
            self.verdicts |= {each.key: each.verdict for each in known if each.verdict.right is not None}

    def find(self, key: str) -> Verdict | None:
        return self.verdicts.get(key)

    def add(self, opinion: Opinion) -> None:
        """Keep an opinion; one without a verdict is logged and asked for again next time."""
        if self.log is not None:
            append_jsonl(self.log, opinion)
        if opinion.verdict.right is None or opinion.cached:
            return
        self.verdicts[opinion.key] = opinion.verdict
        if self.cache is not None:
            append_jsonl(self.cache, _Cached(key=opinion.key, verdict=opinion.verdict))


def read_opinions(run: Path) -> Iterator[Opinion]:
    """The opinions of a run folder, in the order in which they came."""
    return read_records(run / OPINIONS, Opinion)


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def read(self) -> float:
        return round(time.monotonic() - self._started, 4)
