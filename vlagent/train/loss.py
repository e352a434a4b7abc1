"""The objective of supervised fine-tuning: the likelihood of the model's own tokens (arXiv 2512.24330, eq. 1).

Shape letters: B = rows, L = padded length.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from vlagent.model.logprobs import Batch, token_logprobs
from vlagent.types import TrainRow


def weighted_nll(model: nn.Module, batch: Batch, weights: Tensor, banned: Sequence[int]) -> Tensor:
    """Sum over the batch of weight x negative log-likelihood of own tokens; a scalar in nats.

    `weights` is [B]. Divide by `own_weight` of all rows of the step, over all passes and processes, so that every own
    token of a step weighs the same however the step is cut.
    """
    logprobs = token_logprobs(model, batch, banned)
    return -(logprobs.sum(1) * weights.to(logprobs.device)).sum()


def own_weight(rows: Sequence[TrainRow]) -> float:
    """What the sum of `weighted_nll` over these rows is divided by: their own tokens, times their weights."""
    return sum(row.advantage * float(row.mask.sum()) for row in rows)
