"""Advantages by the group's mean alone (Dr. GRPO, arXiv 2503.20783)."""

from __future__ import annotations

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.statistics import advantages, group_centred, group_degenerate


def dr_grpo(rewards: Rewards, config: AdvantageConfig) -> Advantages:  # noqa: ARG001
    """A = R - mean of the group: hard and easy prompts weigh less than with a standard deviation below."""
    values = group_centred(rewards.total, rewards.group)
    return advantages(values, group_degenerate(rewards.total, rewards.group), rewards)
