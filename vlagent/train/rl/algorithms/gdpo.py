"""Advantages that normalise each part of the reward on its own (GDPO, arXiv 2601.05242)."""

from __future__ import annotations

import numpy as np

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.statistics import group_degenerate, group_standardised, normalised_over_batch


def gdpo(rewards: Rewards, config: AdvantageConfig) -> Advantages:
    """Standardise each part within its group, take the weighted sum, then standardise over the minibatch.

    A group is degenerate where no part of it with a weight differs.
    """
    values = np.zeros_like(rewards.total)
    degenerate = np.ones(len(values), np.bool_)
    for name, part in rewards.parts.items():
        if rewards.weights[name] != 0:
            values += rewards.weights[name] * group_standardised(part, rewards.group)
            degenerate &= group_degenerate(part, rewards.group)
    return normalised_over_batch(values, degenerate, rewards, config)
