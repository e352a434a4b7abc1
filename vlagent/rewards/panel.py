"""Several judges for one answer: who decides, and how far they agree."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vlagent.errors import ServiceError
from vlagent.rewards.opinions import Marker, Verdict
from vlagent.types import Sample, Usage

Decides = Literal["first", "majority", "agree"]
"""`first`: the first judge, the others are only recorded; `majority`: most verdicts, a tie leaves it unscored;
`agree`: all the same, else it is unscored."""


@dataclass(frozen=True)
class Panel:
    """Judges that all mark every answer, at the same time. Each logs its own opinion."""

    judges: Sequence[Marker]
    decides: Decides = "first"

    def __post_init__(self) -> None:
        if not self.judges:
            raise ValueError("a panel without a judge decides nothing")

    @property
    def usage(self) -> Usage:
        """Of all judges in this process."""
        return sum((judge.usage for judge in self.judges), Usage())

    async def verdict(self, sample: Sample, answer: str) -> Verdict:
        """Raises `ServiceError` where a judge that the decision needs cannot be reached."""
        said = await asyncio.gather(*(_opinion(judge, sample, answer) for judge in self.judges))
        needed = said[:1] if self.decides == "first" else said
        verdicts = [each for each in needed if isinstance(each, Verdict)]
        failed = next((each for each in needed if isinstance(each, ServiceError)), None)
        if failed is not None:
            raise failed
        if self.decides == "first":
            return verdicts[0]
        return _majority(verdicts) if self.decides == "majority" else _unanimous(verdicts)


async def _opinion(judge: Marker, sample: Sample, answer: str) -> Verdict | ServiceError:
    try:
        return await judge.verdict(sample, answer)
    except ServiceError as error:
        return error


def _majority(verdicts: Sequence[Verdict]) -> Verdict:
    votes = Counter(each.right for each in verdicts if each.right is not None)
    if votes[True] == votes[False]:
        return Verdict(right=None, why=f"{votes[True]} judges say yes and {votes[False]} no")
    return _said(verdicts, votes[True] > votes[False])


def _unanimous(verdicts: Sequence[Verdict]) -> Verdict:
    rights = {each.right for each in verdicts}
    if len(rights) > 1:
        return Verdict(right=None, why="the judges do not agree")
    return _said(verdicts, verdicts[0].right)


def _said(verdicts: Sequence[Verdict], right: bool | None) -> Verdict:
    """The decision in the words of the first judge that made it."""
    return next(each for each in verdicts if each.right is right)
