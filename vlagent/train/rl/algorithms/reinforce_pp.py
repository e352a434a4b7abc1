"""Advantages over the whole minibatch, without a group's spread (REINFORCE++, arXiv 2501.03262)."""

from __future__ import annotations

import numpy as np

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.statistics import group_centred, group_degenerate, normalised_over_batch


def reinforce_pp(rewards: Rewards, config: AdvantageConfig) -> Advantages:
    """A = (R - mean) / std over the minibatch, std with ddof 0.

    Groups play no part: a group of equal rewards teaches as long as other groups differ from it.
    """
    here = rewards.total[rewards.here]
    same = bool(group_degenerate(here, np.zeros(len(here), np.int64)).all())
    return normalised_over_batch(rewards.total, np.full(len(rewards.total), same), rewards, config)


def reinforce_pp_baseline(rewards: Rewards, config: AdvantageConfig) -> Advantages:
    """A = (R - mean of the group) / std over the minibatch of these differences."""
    values = group_centred(rewards.total, rewards.group)
    return normalised_over_batch(values, group_degenerate(rewards.total, rewards.group), rewards, config)
