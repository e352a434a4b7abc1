"""What an episode counts as, what it is worth, and whether it may train: the table of the protocol, in one place.

R = 1.0 * accuracy + 0.5 * format (SenseNova-MARS, arXiv 2512.24330, eq. 2). A service's failure never becomes a 0.
"""

from __future__ import annotations

from typing import Literal, Protocol

from vlagent.errors import ServiceError
from vlagent.rewards.format import format_reward
from vlagent.rewards.match import match
from vlagent.rewards.opinions import Marker
from vlagent.rewards.options import stated_option
from vlagent.rewards.plain import key
from vlagent.types import Outcome, Record, Reward, Sample, StopReason, Trajectory

WEIGHTS = {"accuracy": 1.0, "format": 0.5}
LIMITS = frozenset({StopReason.TURN_LIMIT, StopReason.TOKEN_LIMIT, StopReason.INVALID_ACTIONS})
FAILURES = frozenset(
    {StopReason.TIME_LIMIT, StopReason.BUDGET_LIMIT, StopReason.TOOL_FAILURE, StopReason.MODEL_FAILURE}
)
Trains = Literal["yes", "by_option", "excluded"]
"""`by_option`: `mask` or `penalise`, as the training configuration says."""


class Scored(Record):
    """The outcome of one episode."""

    outcome: Outcome
    why: str
    """The matching rule, the judge's words, or the failure."""
    by: str = ""
    """What decided: `rule`, `option`, `judge`, `limit`, or nothing where it is not scored."""
    degraded: bool = False
    trains: Trains = "excluded"
    reward: Reward | None = None
    """None where the episode cannot be scored."""


class RewardFn(Protocol):
    """Scores one episode. Raises nothing but bugs."""

    async def __call__(self, sample: Sample, trajectory: Trajectory, judge: Marker | None) -> Scored: ...


async def outcome_of(sample: Sample, trajectory: Trajectory, judge: Marker | None) -> Scored:
    """Score one episode by the table of the protocol. Without a judge, rules alone decide."""
    degraded = trajectory.degraded
    if trajectory.stop is StopReason.ANSWERED:
        return await _grade(sample, trajectory, judge, degraded)
    if trajectory.stop in LIMITS:
        why = f"{trajectory.stop}: {trajectory.stop_detail}".removesuffix(": ")
        reward = _reward(trajectory, 0.0, why)
        return Scored(
            outcome=Outcome.WRONG,
            why=why,
            by="limit",
            degraded=degraded,
            trains="excluded" if degraded else "by_option",
            reward=reward,
        )
    outcome = Outcome.FAILED if trajectory.stop in FAILURES else Outcome.NOT_COUNTED
    return Scored(outcome=outcome, why=trajectory.stop_detail or str(trajectory.stop), degraded=degraded)


async def reward(sample: Sample, trajectory: Trajectory, judge: Marker | None = None) -> Reward | None:
    """The reward of one episode, or None where it has none (unscored, failed, stopped)."""
    return (await outcome_of(sample, trajectory, judge)).reward


async def _grade(sample: Sample, trajectory: Trajectory, judge: Marker | None, degraded: bool) -> Scored:
    try:
        right, why, by = await _is_right(sample, trajectory.answer or "", judge)
    except ServiceError as error:
        return Scored(outcome=Outcome.FAILED, why=f"judge failed: {error}", degraded=degraded)
    if right is None:
        return Scored(outcome=Outcome.UNSCORED, why=why, degraded=degraded)
    return Scored(
        outcome=Outcome.RIGHT if right else Outcome.WRONG,
        why=why,
        by=by,
        degraded=degraded,
        trains="excluded" if degraded else "yes",
        reward=_reward(trajectory, float(right), why),
    )


async def _is_right(sample: Sample, answer: str, judge: Marker | None) -> tuple[bool | None, str, str]:
    """(right, why, by); None is unscored. Rules first: the judge is asked only about what they do not accept."""
    if not sample.answers:
        return None, "the sample has no accepted answer", ""
    if sample.choices:
        return (*_option_is_right(sample, answer), "option")
    found = match(answer, sample.answers)
    if found.matched:
        return True, f"rule {found.rule}: {found.truth}", "rule"
    if not answer.strip():
        return False, "the answer is empty", "rule"
    if judge is None or not judged(sample):
        return False, "no rule accepts it", "rule"
    verdict = await judge.verdict(sample, answer)
    return verdict.right, f"judge: {verdict.why}", "judge"


def judged(sample: Sample) -> bool:
    """Whether a judge may be asked: never for options, nor where the manifest asks for exact match."""
    names = sample.extra.get("reward_fn") or ()
    return not sample.choices and not ("em_score" in names and "llm_score" not in names)


def _option_is_right(sample: Sample, answer: str) -> tuple[bool | None, str]:
    truth = option_of_truth(sample)
    if truth is None:
        return None, f"no accepted answer is one of the options {', '.join(sample.choices)}"
    stated = stated_option(answer, sample.choices)
    if stated is None:
        return False, "states no option, or several"
    return stated in truth, f"option {stated}"


def option_of_truth(sample: Sample) -> set[str] | None:
    """The letters that the accepted answers stand for (a letter, or the text of an option)."""
    letters = {letter.upper(): key(text) for letter, text in sample.choices.items()}
    found = set()
    for truth in sample.answers:
        stated = stated_option(truth, letters)
        texts = {letter for letter, text in letters.items() if text and text == key(truth)}
        found |= texts or ({stated} if stated else set())
    return found or None


def _reward(trajectory: Trajectory, accuracy: float, why: str) -> Reward:
    in_form, form_why = format_reward(trajectory)
    return Reward(
        parts={"accuracy": accuracy, "format": in_form}, weights=WEIGHTS, why={"accuracy": why, "format": form_why}
    )
