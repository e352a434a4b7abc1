"""Batch-normalised group advantages (BN-GSPO, SenseNova-MARS, arXiv 2512.24330, eq. 3)."""

from __future__ import annotations

import math

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.statistics import group_degenerate, group_standardised, normalised_over_batch


def bn_gspo(rewards: Rewards, config: AdvantageConfig) -> Advantages:
    """A' = (A - mean) / std over the minibatch, std with ddof 0, of the group-standardised A (see grpo).

    With whole groups of equal size this multiplies every advantage by the one number `expected_factor(p, G)`.
    """
    values = group_standardised(rewards.total, rewards.group)
    return normalised_over_batch(values, group_degenerate(rewards.total, rewards.group), rewards, config)


def expected_factor(p: float, group_size: int) -> float:
    """1 / sqrt(p (G-1) / G): the factor where a share p > 0 of whole groups of size G > 1 teaches."""
    return 1.0 / math.sqrt(p * (group_size - 1) / group_size)
