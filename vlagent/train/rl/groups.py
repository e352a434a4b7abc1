"""Groups to rows: what the optimizer gets of a step, and what was left out and why.

The ids that are trained on are the ids that were sampled (`train.rows.make_row` splices them in); here it is decided
which episodes and which turns train. Shape letters: N = rows, L = tokens of a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from vlagent.agent.config import AgentConfig
from vlagent.agent.conversation import RewriteError, Style
from vlagent.errors import UserError
from vlagent.model.chatml import Renderer
from vlagent.train.config import SourceConfig
from vlagent.train.rl.algorithms.base import Rewards
from vlagent.train.rl.masking import MaskingConfig, trained_turns, why_excluded
from vlagent.train.rows import make_row, own_spans
from vlagent.types import EvalRow, Group, Reward, Sample, TrainRow, Trajectory

EVERY_TURN = SourceConfig(run="", only_right=False)


@dataclass
class TrainingSet:
    """A step as the optimizer sees it: row n has the reward n, and comes from the episode `origin[n]`."""

    rows: list[TrainRow]
    """[N]; advantages are not set yet."""
    rewards: Rewards
    """[N]; groups keep the number that they had in the step, those that give no row are missing."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes that do not train, by reason; with the rows they are all episodes of the step."""
    origin: list[tuple[int, int]] = field(default_factory=list)
    """[N]; (group, episode within the group)."""


def group_rows(groups: Sequence[Group], renderer: Renderer, masking: MaskingConfig, agent: AgentConfig) -> TrainingSet:
    """The rows of a step. `agent` is the configuration that was sampled with.

    Raises `UserError` where the episodes carry no token ids, or were sampled with other prompts than `agent` makes.
    """
    style = Style(agent, agent.pixels, renderer.vocabulary.special_tokens)
    rows: list[TrainRow] = []
    kept: list[tuple[Reward, int, int]] = []
    left_out: Counter[str] = Counter()
    for number, place, group, trajectory, row in _episodes(groups):
        reason = why_excluded(trajectory, row, masking) or _why_no_row(trajectory)
        if reason is None:
            made = _row(group.sample, trajectory, style, renderer, masking)
            reason = None if made.mask.any() else "nothing_to_learn_from"
        if reason is not None:
            left_out[reason] += 1
            continue
        assert row.reward is not None
        rows.append(made)
        kept.append((row.reward, number, place))
    return TrainingSet(rows, _rewards(kept), left_out, [(number, place) for _, number, place in kept])


def _episodes(groups: Sequence[Group]) -> Iterator[tuple[int, int, Group, Trajectory, EvalRow]]:
    for number, group in enumerate(groups):
        for place, (trajectory, row) in enumerate(zip(group.trajectories, group.rows, strict=True)):
            yield number, place, group, trajectory, row


def _why_no_row(trajectory: Trajectory) -> str | None:
    if any(turn.tokens is None for turn in trajectory.turns):
        raise UserError(
            f"sample {trajectory.sample_id!r}: the model gave no token ids, so nothing can be trained on; "
            "roll out with an engine that does (in_process, vllm, sglang)"
        )
    empty = any(turn.tokens is not None and not len(turn.tokens.ids) for turn in trajectory.turns)
    return "empty_turn" if empty else None


def _row(sample: Sample, trajectory: Trajectory, style: Style, renderer: Renderer, masking: MaskingConfig) -> TrainRow:
    try:
        row = make_row(sample, trajectory, style, renderer, EVERY_TURN)
    except RewriteError as error:
        raise UserError(
            f"sample {sample.id!r}, rollout {trajectory.rollout}: {error}; "
            "train with the agent configuration and the checkpoint that were sampled with"
        ) from None
    trains = trained_turns(trajectory, masking)
    for (start, stop), wanted in zip(own_spans(row.mask), trains, strict=True):
        if not wanted:
            row.mask[start:stop] = False
    return row


def _rewards(kept: Sequence[tuple[Reward, int, int]]) -> Rewards:
    parts = sorted({name for reward, _, _ in kept for name in reward.parts})
    weights = {name: weight for reward, _, _ in kept for name, weight in reward.weights.items()}
    return Rewards(
        total=np.array([reward.total for reward, _, _ in kept], np.float64),
        parts={name: np.array([reward.parts.get(name, 0.0) for reward, _, _ in kept], np.float64) for name in parts},
        weights=weights,
        group=np.array([number for _, number, _ in kept], np.int64),
    )
