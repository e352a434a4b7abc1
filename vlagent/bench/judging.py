"""What the judges of a run said, what they cost, and how far they agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import Field

from vlagent.bench.agreement import Agreement, agreement
from vlagent.bench.metrics import quantile
from vlagent.rewards.opinions import Opinion, read_opinions
from vlagent.types import Record


class JudgeSummary(Record):
    """One judge."""

    asked: int
    """Answers that it was asked about; yes + no + no_verdict + failed."""
    yes: int
    no: int
    no_verdict: int
    """It answered, but never in the fixed form."""
    failed: int
    """It could not be reached."""
    cached: int
    """Answers that an earlier opinion settled, besides."""
    cache_share: float | None
    """Of all answers that were to be marked."""
    attempts: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    p50_s: float | None
    p95_s: float | None


class Judging(Record):
    """All judges; empty where rules alone decided."""

    judges: dict[str, JudgeSummary] = Field(default_factory=dict)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    agreement: Agreement | None = None


def judging_of(run: Path) -> Judging:
    """Read the opinions of a run folder."""
    by_judge: dict[str, list[Opinion]] = {}
    for opinion in read_opinions(run):
        by_judge.setdefault(opinion.judge, []).append(opinion)
    judges = {name: _summary(opinions) for name, opinions in by_judge.items()}
    return Judging(
        judges=judges,
        prompt_tokens=sum(each.prompt_tokens for each in judges.values()),
        completion_tokens=sum(each.completion_tokens for each in judges.values()),
        cost_usd=math.fsum(each.cost_usd for each in judges.values()),
        agreement=agreement(opinion for opinions in by_judge.values() for opinion in opinions),
    )


def _summary(opinions: Sequence[Opinion]) -> JudgeSummary:
    asked = [opinion for opinion in opinions if not opinion.cached]
    seconds = [opinion.latency_s for opinion in asked if not opinion.failure]
    return JudgeSummary(
        asked=len(asked),
        yes=_with(asked, True),
        no=_with(asked, False),
        no_verdict=sum(opinion.verdict.right is None and not opinion.failure for opinion in asked),
        failed=sum(bool(opinion.failure) for opinion in asked),
        cached=len(opinions) - len(asked),
        cache_share=(len(opinions) - len(asked)) / len(opinions) if opinions else None,
        attempts=sum(opinion.attempts for opinion in asked),
        prompt_tokens=sum(opinion.usage.prompt_tokens for opinion in asked),
        completion_tokens=sum(opinion.usage.completion_tokens for opinion in asked),
        cost_usd=math.fsum(opinion.usage.cost_usd for opinion in asked),
        p50_s=quantile(seconds, 0.5),
        p95_s=quantile(seconds, 0.95),
    )


def _with(opinions: Iterable[Opinion], right: bool) -> int:
    return sum(opinion.verdict.right is right for opinion in opinions)
