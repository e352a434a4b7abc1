"""Our advantages in veRL's tensors: `algorithm.adv_estimator = bn_gspo`, `vlagent_grpo`, ...

Shape letters: N = sequences of the rollout batch, R = padded response length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vlagent.train.rl.algorithms.base import AdvantageConfig, AdvantageFn, Rewards
from vlagent.train.rl.algorithms.registry import ADVANTAGES

OPTIONS = ("exclude_degenerate", "bn_max_factor")
"""Read from `algorithm.*` where they are set there (`+algorithm.bn_max_factor=4`)."""
NAMES = {f"vlagent_{name}": name for name in ADVANTAGES if name != "gdpo"} | {"bn_gspo": "bn_gspo"}
"""veRL's name -> ours. veRL has estimators of some of our names; `gdpo` needs parts that it keeps elsewhere."""
Estimator = Callable[..., tuple[Tensor, Tensor]]


def make_estimator(name: str) -> Estimator:
    """The estimator of one of our advantages, as veRL's trainer calls it."""

    def estimate(
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any,
        config: Any = None,
        **more: Any,  # noqa: ARG001
    ) -> tuple[Tensor, Tensor]:
        tokens = estimated(ADVANTAGES[name], token_level_rewards, response_mask, index, _options(config))
        return tokens, tokens

    return estimate


@torch.no_grad()
def estimated(function: AdvantageFn, rewards: Tensor, mask: Tensor, index: Any, options: AdvantageConfig) -> Tensor:
    """Advantages [N, R] of rewards [N, R] that are summed over tokens; `index` [N] names each sequence's prompt.

    Sequences without a trained token (a service failed) are no part of any statistic. veRL calls this once a rollout
    batch, so that is what is normalised over, however many optimizer minibatches follow.
    """
    counted = mask.bool().any(-1).cpu().numpy()
    scores = rewards.sum(-1).double().cpu().numpy()[counted]
    group = np.unique(np.asarray(index, dtype=str)[counted], return_inverse=True)[1]
    found = function(Rewards(scores, {"score": scores}, {"score": 1.0}, group), options)
    values = torch.zeros(len(counted), dtype=torch.float64)
    values[torch.from_numpy(counted)] = torch.from_numpy(found.values)
    return values.to(rewards)[:, None] * mask


def _options(config: Any) -> AdvantageConfig:
    given = {} if config is None else {name: config.get(name) for name in OPTIONS}
    return AdvantageConfig.model_validate({name: value for name, value in given.items() if value is not None})
