"""Group-relative advantages (GRPO, arXiv 2402.03300; GSPO, arXiv 2507.18071, has the same)."""

from __future__ import annotations

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.statistics import advantages, group_degenerate, group_standardised


def grpo(rewards: Rewards, config: AdvantageConfig) -> Advantages:  # noqa: ARG001
    """A = (R - mean of the group) / (std of the group + 1e-6), std with ddof 1."""
    values = group_standardised(rewards.total, rewards.group)
    return advantages(values, group_degenerate(rewards.total, rewards.group), rewards)
