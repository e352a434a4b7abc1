"""What an evaluation is, and which of it must stay the same when it is resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from vlagent.agent.config import AgentConfig
from vlagent.errors import UserError
from vlagent.files import read_json
from vlagent.rewards.panel import Decides
from vlagent.types import Record

FREE = frozenset(
    [
        *("base_url", "judge_base_url", "judge_cache", "attempts", "concurrency", "adaptive", "model_limit"),
        *("tool_limits", "max_failed_share", "limits", "prices"),
    ]
)
"""May change between an evaluation and its resumption: where things are, how fast, what they cost."""


class RunLimits(Record):
    """What a whole evaluation may take; past it, it ends and can be resumed."""

    budget_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Of the model and the judges together, by the prices that are set, from the first start on."""
    time_s: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Wall time of one start."""


class Prices(Record):
    """US dollars for a million tokens."""

    prompt: float = Field(default=0.0, ge=0)
    completion: float = Field(default=0.0, ge=0)
    judge_prompt: float = Field(default=0.0, ge=0)
    judge_completion: float = Field(default=0.0, ge=0)


class EvalConfig(Record):
    """One evaluation."""

    verb: Literal["eval"] = "eval"
    target: str
    """Suite, manifest, entries of one, or rows."""
    data: str | None = None
    model: str | None = None
    base_url: str | None = None
    attempts: int = Field(default=5, ge=1)
    """Tries of one call of the model or the judge."""
    agent: AgentConfig = AgentConfig()
    search: str | None = None
    k: int = Field(default=1, ge=1)
    """Rollouts a question."""
    k_of: dict[str, int] = Field(default_factory=dict)
    """Data sets with another number of rollouts."""
    limit: int | None = Field(default=None, ge=1)
    """Questions of each data set."""
    judge_model: str | None = None
    """None scores by rules alone; `matcher` is the local one; several, with commas, mark everything each."""
    judge_base_url: str | None = None
    """One for all judges, or as many as there are judge models."""
    judge_decides: Decides = "first"
    judge_cache: str | None = None
    """A file of verdicts that runs share."""
    judge_with_images: bool = True
    concurrency: int = Field(default=16, ge=1)
    adaptive: bool = True
    """Ask the model less at one time while it refuses (429) or slows down."""
    model_limit: int | None = Field(default=None, ge=1)
    tool_limits: dict[str, int] = Field(default_factory=dict)
    max_failed_share: float = Field(default=0.1, ge=0, le=1)
    """More failed episodes than this share of all end the evaluation early, and mark it invalid."""
    limits: RunLimits = RunLimits()
    prices: Prices = Prices()

    def rollouts_of(self, source: str) -> int:
        """Rollouts a question of a data set."""
        return self.k_of.get(source, self.k)

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of the judge models."""
        return tuple(name.strip() for name in (self.judge_model or "").split(",") if name.strip())


def read_config(run: Path) -> EvalConfig:
    """The configuration that an evaluation was started with."""
    value = read_json(run / "config.json")
    try:
        return EvalConfig.model_validate(value)
    except ValidationError:
        raise UserError(f"{run}: its config.json is not that of an evaluation; choose another --run") from None


def check_same(before: EvalConfig, now: EvalConfig, run: Path) -> None:
    """`UserError` that names the first key whose value decides results and has changed."""
    old, new = dict(_flat(before.model_dump(mode="json"))), dict(_flat(now.model_dump(mode="json")))
    for name in sorted(old.keys() | new.keys()):
        if name.split(".")[0] not in FREE and old.get(name) != new.get(name):
            raise UserError(
                f"{run}: {name} was {old.get(name)!r} and is now {new.get(name)!r}; "
                "resume with the same value, or choose another --run"
            )


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
