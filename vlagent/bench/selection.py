"""Which episodes of a run folder are worth learning from: the same choice for training, exports and cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from vlagent.agent.config import AgentConfig
from vlagent.agent.store import read_trajectories
from vlagent.bench.runs import read_rows, read_samples
from vlagent.errors import UserError
from vlagent.files import read_json
from vlagent.types import EvalRow, Outcome, Record, Sample, StopReason, Trajectory

NEVER_TRAINS = frozenset(StopReason) - {StopReason.ANSWERED}
"""A demonstration ends with an answer."""


class Selection(Record):
    """What an episode must be like."""

    only_right: bool = True
    only_format_ok: bool = False
    """Only episodes in which every turn is in form."""
    max_turns: int | None = Field(default=None, ge=1)


def episodes(
    folder: Path, wanted: Selection, left_out: Counter[str]
) -> Iterator[tuple[Sample, Trajectory, EvalRow | None]]:
    """The episodes that are wanted, with their scores; `left_out` counts the others by reason.

    In the order of the questions: the one in which episodes happened to end would make weights hard to repeat.
    Raises `UserError` where the folder is no run, or nothing says which episodes are right.
    """
    samples = {sample.id: sample for sample in read_samples(folder)}
    place = {sample_id: i for i, sample_id in enumerate(samples)}
    rows = read_rows(folder)
    if wanted.only_right and not rows:
        raise UserError(f"{folder}: no rows.jsonl says which episodes are right; set only_right = false to take all")
    for trajectory in sorted(read_trajectories(folder), key=lambda t: (place.get(t.sample_id, -1), t.rollout)):
        row = rows.get((trajectory.sample_id, trajectory.rollout))
        reason = _why_not(trajectory, row, wanted, trajectory.sample_id in samples)
        if reason:
            left_out[reason] += 1
        else:
            yield samples[trajectory.sample_id], trajectory, row


def _why_not(trajectory: Trajectory, row: EvalRow | None, wanted: Selection, known: bool) -> str | None:
    if not known:
        return "no such sample"
    if trajectory.stop in NEVER_TRAINS:
        return f"ended by {trajectory.stop}"
    if trajectory.degraded:
        return "a service failed"
    if wanted.only_right and (row is None or row.outcome is not Outcome.RIGHT):
        return "not right"
    if wanted.only_format_ok and not all(turn.format_ok for turn in trajectory.turns):
        return "not in form"
    if wanted.max_turns is not None and len(trajectory.turns) > wanted.max_turns:
        return "more than max_turns"
    return None


def agent_of(folder: Path) -> AgentConfig:
    """The settings that the episodes of a run folder were played with."""
    value = read_json(folder / "config.json")
    try:
        return AgentConfig.model_validate(value["agent"])
    except (KeyError, TypeError, ValidationError):
        raise UserError(f"{folder}: its config.json has no agent, so it is not a run of episodes") from None
