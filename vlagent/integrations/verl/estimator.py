"""`algorithm.adv_estimator = bn_gspo` for veRL: our advantages in its tensors.

Shape letters: N = sequences of the rollout batch, R = padded response length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlagent.train.rl.algorithms.base import AdvantageConfig, Rewards
from vlagent.train.rl.algorithms.bn_gspo import bn_gspo as advantages_of

OPTIONS = ("exclude_degenerate", "bn_max_factor")
"""Read from `algorithm.*` where they are set there (`+algorithm.bn_max_factor=4`)."""


def bn_gspo(
    token_level_rewards: Tensor,
    response_mask: Tensor,
    index: Any,
    config: Any = None,
    **more: Any,  # noqa: ARG001
) -> tuple[Tensor, Tensor]:
    """Advantages and returns, the same [N, R], of rewards [N, R] that are summed over tokens (arXiv 2512.24330, eq. 3).

    `index` [N] names each sequence's prompt. Sequences without a trained token (a service failed) are no part of any
    statistic. veRL calls this once a rollout batch, so that is what is normalised over, however many optimizer
    minibatches follow.
    """
    with torch.no_grad():
        counted = response_mask.bool().any(-1).cpu().numpy()
        scores = token_level_rewards.sum(-1).double().cpu().numpy()[counted]
        group = np.unique(np.asarray(index, dtype=str)[counted], return_inverse=True)[1]
        rewards = Rewards(scores, {"score": scores}, {"score": 1.0}, group)
        found = advantages_of(rewards, _options(config))
        values = torch.zeros(len(counted), dtype=torch.float64)
        values[torch.from_numpy(counted)] = torch.from_numpy(found.values)
        tokens = values.to(token_level_rewards)[:, None] * response_mask
    return tokens, tokens


def _options(config: Any) -> AdvantageConfig:
    given = {} if config is None else {name: config.get(name) for name in OPTIONS}
    return AdvantageConfig.model_validate({name: value for name, value in given.items() if value is not None})
