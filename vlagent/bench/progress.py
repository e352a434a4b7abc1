"""The course of an evaluation as numbers over time: metrics.jsonl, and when its limits are met."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from vlagent.bench.config import RunLimits
from vlagent.files import append_jsonl
from vlagent.types import EvalRow, Trajectory

METRICS = "metrics.jsonl"
EVERY_S = 5.0


@dataclass
class Course:
    """What was played and scored so far, written down every few seconds and at the end."""

    run: Path
    planned: int
    limits: RunLimits
    spent_usd: float = 0.0
    """Of the model, over all starts."""
    judges_usd: Callable[[], float] = lambda: 0.0
    """Of the judges, over all starts."""
    done: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    running: int = 0
    pace: float | None = None
    """Model calls at one time that the endpoint takes, where that is learnt."""
    started: float = field(default_factory=time.monotonic)
    _written: float = 0.0
    _played: int = 0

    def played(self, trajectory: Trajectory) -> None:
        """An episode has ended."""
        self.spent_usd += trajectory.usage.cost_usd
        self._played += 1

    def scored(self, row: EvalRow) -> None:
        """An episode has its row."""
        self.done += 1
        self.outcomes[str(row.outcome)] += 1
        if time.monotonic() - self._written >= EVERY_S:
            self.write()

    def write(self) -> None:
        """Append one line to metrics.jsonl."""
        self._written = time.monotonic()
        seconds = self._written - self.started
        line = {
            "version": 1,
            "at": round(time.time(), 3),
            "seconds": round(seconds, 3),
            "step": self.done,
            "planned": self.planned,
            **{name: self.outcomes[name] for name in ("right", "wrong", "unscored", "failed", "not_counted")},
            "played_a_second": round(self._played / seconds, 4) if seconds else 0.0,
            "cost_usd": round(self.spent_usd, 6),
            "judge_cost_usd": round(self.judges_usd(), 6),
            "model_calls_at_once": self.pace,
        }
        append_jsonl(self.run / METRICS, line)

    def over(self) -> str:
        """`budget` or `time` where a limit of the whole run is met, else nothing."""
        limit_s, budget = self.limits.time_s, self.limits.budget_usd
        if limit_s is not None and time.monotonic() - self.started >= limit_s:
            return "time"
        if budget is not None and self.spent_usd + self.judges_usd() >= budget:
            return "budget"
        return ""
