"""Which episodes train, and from which turn on an episode is not trained any more (the table of the protocol)."""

from __future__ import annotations

from typing import Literal

from vlagent.types import EvalRow, Fault, Outcome, Record, StopReason, Trajectory, Turn

OverLimit = Literal["mask", "penalise"]
"""`mask`: the episode is excluded (Mini-o3, arXiv 2509.07969); `penalise`: it trains as one without an answer."""


class MaskingConfig(Record):
    """What becomes of episodes that ended without an answer. Where a service failed, they are excluded, always."""

    over_length: OverLimit = "penalise"
    """Those that ran out of tokens."""
    over_turns: OverLimit = "penalise"
    """Those that ran out of turns."""
    invalid: OverLimit = "penalise"
    """Those that ended after invalid calls in a row."""
    fatal_steps: bool = False
    """Of the latter, no token trains from the first of those invalid calls on; what led there still does."""


def why_excluded(trajectory: Trajectory, row: EvalRow, config: MaskingConfig) -> str | None:
    """The reason why an episode does not train, in a word; None if it does."""
    if row.outcome is Outcome.NOT_COUNTED:
        return "stopped"
    if row.outcome is Outcome.UNSCORED:
        return "unscored"
    if row.outcome is Outcome.FAILED:
        return "judge_failure" if trajectory.stop is StopReason.ANSWERED else str(trajectory.stop)
    if row.degraded:
        return "degraded"
    if any(turn.edited_by is not None for turn in trajectory.turns):
        return "edited"
    option = {
        StopReason.TOKEN_LIMIT: config.over_length,
        StopReason.TURN_LIMIT: config.over_turns,
        StopReason.INVALID_ACTIONS: config.invalid,
    }.get(trajectory.stop)
    return f"masked_{trajectory.stop}" if option == "mask" else None


def trained_turns(trajectory: Trajectory, config: MaskingConfig) -> list[bool]:
    """Whether each turn trains: by option, the fatal ones do not."""
    last = fatal_from(trajectory) if config.fatal_steps else len(trajectory.turns)
    return [number < last for number in range(len(trajectory.turns))]


def fatal_from(trajectory: Trajectory) -> int:
    """Number of the first of the invalid calls in a row that ended the episode; of turns where none did."""
    at = len(trajectory.turns)
    if trajectory.stop is not StopReason.INVALID_ACTIONS:
        return at
    while at and _is_invalid(trajectory.turns[at - 1]):
        at -= 1
    return at


def _is_invalid(turn: Turn) -> bool:
    seen = turn.observation
    return turn.error is not None or (seen is not None and seen.fault is Fault.MODEL)
