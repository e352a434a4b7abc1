"""Small rewards for the tests of advantages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vlagent.train.rl.algorithms.base import AdvantageConfig, Advantages, Rewards
from vlagent.train.rl.algorithms.registry import get_advantage


def rewards_of(groups: Sequence[Sequence[float]], formats: Sequence[Sequence[float]] | None = None) -> Rewards:
    """Groups of accuracies, and of formats (weight 0.5) if given; sequences stand group after group."""
    accuracy = np.array([value for group in groups for value in group], np.float64)
    numbers = np.array([number for number, group in enumerate(groups) for _ in group])
    parts, weights = {"accuracy": accuracy}, {"accuracy": 1.0}
    if formats is not None:
        parts["format"] = np.array([value for group in formats for value in group], np.float64)
        weights["format"] = 0.5
    total = sum((weights[name] * part for name, part in parts.items()), np.zeros(len(accuracy)))
    return Rewards(total, parts, weights, numbers)


def advantage(name: str, rewards: Rewards, **options: object) -> Advantages:
    return get_advantage(name)(rewards, AdvantageConfig.model_validate({"advantage": name, **options}))
