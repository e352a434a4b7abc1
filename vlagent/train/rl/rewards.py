"""The reward of one episode in training: accuracy and format, and optional parts that are off by default.

R = 1.0 * accuracy + 0.5 * format (SenseNova-MARS, arXiv 2512.24330, eq. 2) comes from `rewards.rubric`, judge included.
A service's failure never becomes a 0: such an episode has no reward and is counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field, FiniteFloat, field_validator

from vlagent.chat.base import ChatModel
from vlagent.chat.open import open_chat
from vlagent.errors import ServiceError, UserError
from vlagent.plugins import loaded, plugins
from vlagent.rewards.judge import Judge
from vlagent.rewards.rubric import Scored, judged, option_of_truth, outcome_of
from vlagent.types import Call, Outcome, Record, Reward, Sample, StopReason, Trajectory, Turn

GROUP = "vlagent.rewards"
"""Entry points of other packages: functions of (sample, trajectory) that give a part in [0, 1]."""
WORD = re.compile(r"[^\W_]+")
PartFn = Callable[[Sample, Trajectory], float]


class JudgeConfig(Record):
    """The model that is asked about answers which no rule accepts."""

    model: str
    """A name that `base_url` serves, or `local:FOLDER`."""
    base_url: str | None = None
    attempts: int = Field(default=5, ge=1)
    """Tries of one call."""
    with_images: bool = True
    calls: int = Field(default=32, ge=1)
    """At one time."""


class RewardConfig(Record):
    """What an episode is worth. Only the first two are the paper's; the others change what is learnt."""

    accuracy: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    format: float = Field(default=0.5, ge=0, allow_inf_nan=False)
    tool_cost: float = Field(default=0.0, ge=0, le=1)
    """c of accuracy * ok * (1 - c * calls), never below 0: a wrong answer is not charged for having looked."""
    turn_penalty: float = Field(default=0.0, ge=0, le=1)
    """Taken off for each turn after the first, right or wrong; at most 1 in all."""
    repeat_penalty: float = Field(default=0.0, ge=0, le=1)
    """Taken off for each search that was made before in the same episode; at most 1 in all."""
    query_quality: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the share of text searches whose results hold an accepted answer; 0 for an episode without answer."""
    plugins: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Weights of parts that other packages bring (entry points `vlagent.rewards`)."""
    judge: JudgeConfig | None = None
    """None scores by rules alone."""
    max_fault_share: float = Field(default=0.2, ge=0, le=1)
    """More episodes of a step than this share that a service spoilt end the run (exit 3)."""

    @field_validator("plugins")
    @classmethod
    def _do_not_hide_ours(cls, plugins: dict[str, float]) -> dict[str, float]:
        for name in plugins:
            if name in ("accuracy", "format", *PARTS):
                raise ValueError(f"{name} is a part of our own; set it by its own key")
        return plugins


class TooManyFaults(ServiceError):
    """Services failed in more episodes of a step than the configuration allows."""


def open_judge(config: JudgeConfig, folder: Path) -> Judge:
    """The judge of a run; it remembers its verdicts in the run folder, so a resumed run asks nothing twice."""
    return Judge(_open_model(config), with_images=config.with_images, cache=folder / "judge.jsonl")


def _open_model(config: JudgeConfig) -> ChatModel:
    if not config.model.startswith("local:"):
        return open_chat(config.model, config.base_url, attempts=config.attempts)
    from vlagent.model.local_chat import open_local

    return open_local(Path(config.model.removeprefix("local:")))


def check_samples(samples: list[Sample], judge: Judge | None) -> None:
    """`UserError` for a question that no answer to could ever be scored."""
    for sample in samples:
        if not sample.answers:
            raise UserError(
                f"question {sample.id!r} has no accepted answer, so nothing can be learnt from it; remove it"
            )
        if sample.choices and option_of_truth(sample) is None:
            raise UserError(f"question {sample.id!r}: {sample.answers[0]!r} is none of its options; correct the row")
    if judge is None and samples and all(_wants_judge(sample) for sample in samples):
        raise UserError("every question wants the judge (reward_fn llm_score) and there is none; set rewards.judge")


def _wants_judge(sample: Sample) -> bool:
    names = sample.extra.get("reward_fn") or ()
    return judged(sample) and "llm_score" in names and "em_score" not in names


async def score(sample: Sample, trajectory: Trajectory, judge: Judge | None, config: RewardConfig) -> Scored:
    """The outcome of one episode with its reward in training. Raises nothing but bugs."""
    scored = await outcome_of(sample, trajectory, judge)
    if scored.reward is None:
        return scored
    return scored.model_copy(update={"reward": compose(sample, trajectory, scored.reward, config)})


def compose(sample: Sample, trajectory: Trajectory, base: Reward, config: RewardConfig) -> Reward:
    """Accuracy and format with the configured weights, and what else is switched on."""
    parts, weights = dict(base.parts), {"accuracy": config.accuracy, "format": config.format}
    for name, (weight, value) in _further(sample, trajectory, base.parts["accuracy"], config).items():
        parts[name], weights[name] = min(1.0, max(0.0, value)), weight
    return Reward(parts=parts, weights=weights, why=base.why)


def _further(sample: Sample, trajectory: Trajectory, ok: float, config: RewardConfig) -> dict[str, tuple[float, float]]:
    """(weight, value) of each optional part that is on."""
    found: dict[str, tuple[float, float]] = {}
    if config.tool_cost:
        found["tool_cost"] = (-config.accuracy, ok * min(1.0, config.tool_cost * calls(trajectory)))
    if config.turn_penalty:
        found["turns"] = (-1.0, config.turn_penalty * max(0, len(trajectory.turns) - 1))
    if config.repeat_penalty:
        found["repeated_queries"] = (-1.0, config.repeat_penalty * repeated_queries(trajectory))
    if config.query_quality:
        found["query_quality"] = (config.query_quality, query_quality(sample, trajectory))
    for name, weight in config.plugins.items():
        found[name] = (weight, _finite(name, plugin(name)(sample, trajectory)))
    return found


def _finite(name: str, value: float) -> float:
    """What cannot be computed is no 0."""
    if not math.isfinite(value):
        raise UserError(f"rewards.plugins.{name} gave {value}: a number from 0 to 1 is expected; correct the plugin")
    return value


PARTS = ("tool_cost", "turns", "repeated_queries", "query_quality")
"""Names of the optional parts."""


def calls(trajectory: Trajectory) -> int:
    """Valid tool calls."""
    return sum(turn.call is not None for turn in trajectory.turns)


def repeated_queries(trajectory: Trajectory) -> int:
    """Searches that were made before in the same episode, letters and spacing aside."""
    queries = [_query(turn.call) for turn in trajectory.turns if turn.call and turn.call.name.endswith("_search")]
    return len(queries) - len(set(queries))


def _query(call: Call) -> tuple[str, ...]:
    return (call.name, *(f"{name}={_words(str(value))}" for name, value in sorted(call.arguments.items())))


def _words(text: str) -> str:
    """Words in lower case, one space around each, so that whole words can be looked for."""
    return f" {' '.join(WORD.findall(text.casefold()))} "


def query_quality(sample: Sample, trajectory: Trajectory) -> float:
    """Share of the text searches of an answered episode whose results hold an accepted answer as whole words."""
    searches = [turn for turn in trajectory.turns if turn.call and turn.call.name == "text_search"]
    if not searches or trajectory.stop is not StopReason.ANSWERED:
        return 0.0
    truths = [words for truth in sample.answers if (words := _words(truth)).strip()]
    return sum(_holds(turn, truths) for turn in searches) / len(searches)


def _holds(turn: Turn, truths: list[str]) -> bool:
    text = _words(turn.observation.text) if turn.observation and turn.observation.fault is None else ""
    return any(truth in text for truth in truths)


@cache
def plugin(name: str) -> PartFn:
    """A part that another package brings. Raises `UserError` where none does."""
    point = plugins(GROUP).get(name)
    if point is None:
        raise UserError(f"rewards.plugins: no part {name!r} among the entry points {GROUP!r}; install what brings it")
    found: PartFn = loaded(f"rewards.plugins: {name!r}", point)
    return found


def is_fault(scored: Scored, stop: StopReason) -> bool:
    """Whether a service, the judge included, spoilt the episode, so that it must not train."""
    if scored.outcome in (Outcome.FAILED, Outcome.UNSCORED):
        return stop is not StopReason.BUDGET_LIMIT
    return scored.degraded


def trained_reward(scored: Any) -> Reward | None:
    """The reward that training sees; None where the episode cannot be scored or must not train.

    `scored` is a `Scored` or an `EvalRow`.
    """
    if scored.degraded or scored.outcome not in (Outcome.RIGHT, Outcome.WRONG):
        return None
    reward: Reward | None = scored.reward
    return reward
