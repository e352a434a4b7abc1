"""The clipped objective of policy gradients as a loss: all that a trainer minimises is computed here.

GRPO (arXiv 2402.03300) with `ratio = "token"`, GSPO (arXiv 2507.18071) with `ratio = "sequence"`, clip-higher and
token aggregation (DAPO, arXiv 2503.14476), dual clip (arXiv 1912.09729).
Shape letters: B = sequences of a forward pass, L = padded length, K = ratios of a forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vlagent.train.rl.algorithms.config import AlgorithmConfig
from vlagent.train.rl.algorithms.stats import Stats

ONE = 1e-5
"""A ratio this close to 1 counts as identically 1: what float32 makes of equal log-probabilities."""
LOG_LIMIT = 20.0
"""Log ratios are held within +-20: past e^20 a clipped term would give 0 x inf = NaN as its gradient."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Log-probabilities (natural log) of the ids trained on; what stands where `mask` is False plays no part."""

    new: Tensor
    """[B, L]; under the weights in training, with gradient."""
    mask: Tensor
    """[B, L] bool; True on the policy's own tokens."""
    old: Tensor | None = None
    """[B, L]; under the weights that the update starts from. None: those are these, the ratio is 1 by definition."""
    ref: Tensor | None = None
    """[B, L]; under the reference model. Needed where beta > 0."""
    sampler: Tensor | None = None
    """[B, L]; as the rollout engine reported them. Needed where `tis_cap` is set."""
    entropy: Tensor | None = None
    """[B, L] in nats, with gradient. Needed where the entropy bonus is above 0."""


@dataclass(frozen=True)
class Totals:
    """The size of the GLOBAL minibatch, over all forward passes and processes."""

    sequences: int
    tokens: int
    """Own tokens."""


@dataclass(frozen=True, eq=False)
class Objective:
    """A loss to call `backward` on, and what is worth watching about it."""

    loss: Tensor
    """Scalar; divided by the totals, so that losses of all passes of a minibatch add up to its loss."""
    stats: Stats


def objective(scores: Scores, advantages: Tensor, config: AlgorithmConfig, totals: Totals) -> Objective:
    """loss = -J, J = mean of min(s A, clip(s) A) - beta x k3 KL + entropy bonus; `advantages` is [B].

    Raises ValueError where the config needs log-probabilities that `scores` lacks.
    """
    _check(scores, config)
    mask = trained(scores)
    old = scores.new.detach() if scores.old is None else scores.old
    ratio = policy_ratio(scores.new, old, mask, config.ratio)
    gain = surrogate(ratio, advantages[:, None], config)
    if config.tis_cap is not None and scores.sampler is not None:
        gain = gain * policy_ratio(old, scores.sampler, mask, config.ratio).clamp(max=config.tis_cap).detach()
    gain = gain.expand(mask.shape)
    kl = k3(scores.new, scores.ref, mask) if scores.ref is not None else None
    if kl is not None and config.beta > 0:
        gain = gain - config.beta * kl
    if config.entropy > 0 and scores.entropy is not None:
        gain = gain + config.entropy * scores.entropy
    loss = -aggregate(gain, mask, config, totals)
    return Objective(loss, _stats(scores, ratio.detach(), advantages, kl, config, totals))


def trained(scores: Scores) -> Tensor:
    """[B, L] bool; the positions that the loss sees."""
    return scores.mask.bool()


def policy_ratio(new: Tensor, old: Tensor, mask: Tensor, level: str) -> Tensor:
    """pi_new / pi_old: [B, L] a token, or [B, 1] a sequence, exp of the mean log ratio over its own tokens."""
    logs = difference(new, old, mask)
    if level == "sequence":
        logs = logs.sum(1, keepdim=True) / lengths(mask)[:, None]
    return logs.clamp(-LOG_LIMIT, LOG_LIMIT).exp()


def surrogate(ratio: Tensor, advantages: Tensor, config: AlgorithmConfig) -> Tensor:
    """min(s A, clip(s) A), of the shape of `ratio`; `advantages` is [B, 1]. Dual clip bounds s where A < 0."""
    bounded = (
        ratio if config.dual_clip is None else torch.where(advantages < 0, ratio.clamp(max=config.dual_clip), ratio)
    )
    clipped = ratio.clamp(1 - config.eps_low, 1 + config.eps_high)
    return torch.minimum(bounded * advantages, clipped * advantages)


def k3(new: Tensor, ref: Tensor, mask: Tensor) -> Tensor:
    """[B, L]; unbiased estimate of KL(new || ref) at each token, never negative: exp(d) - d - 1, d = ref - new."""
    logs = difference(ref, new, mask).clamp(-LOG_LIMIT, LOG_LIMIT)
    return logs.exp() - logs - 1


def aggregate(values: Tensor, mask: Tensor, config: AlgorithmConfig, totals: Totals) -> Tensor:
    """This pass's part of the mean of values [B, L] over the global minibatch, by `config.aggregation`."""
    sums = torch.where(mask, values, 0.0).sum(1)
    if config.aggregation == "token_mean":
        return sums.sum() / totals.tokens
    return (sums / lengths(mask)).sum() / totals.sequences


def difference(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    """[B, L]; a - b on own tokens, 0 with a gradient of 0 elsewhere whatever stands there."""
    return torch.where(mask, a - b, 0.0)


def lengths(mask: Tensor) -> Tensor:
    """[B]; own tokens of each sequence, at least 1."""
    return mask.sum(1).clamp(min=1)


def _check(scores: Scores, config: AlgorithmConfig) -> None:
    wanted = {"ref": config.beta > 0, "sampler": config.tis_cap is not None, "entropy": config.entropy > 0}
    lacking = [name for name, needed in wanted.items() if needed and getattr(scores, name) is None]
    if lacking:
        raise ValueError(f"the algorithm's settings need scores.{lacking[0]}, which is None")


def _stats(
    scores: Scores, ratio: Tensor, advantages: Tensor, kl: Tensor | None, config: AlgorithmConfig, totals: Totals
) -> Stats:
    mask = trained(scores)
    rows = mask.any(1)
    kept = ratio[mask] if ratio.shape == mask.shape else ratio[rows, 0]
    signs = advantages[:, None].expand(mask.shape)[mask] if ratio.shape == mask.shape else advantages[rows]
    size = totals.tokens if ratio.shape == mask.shape else totals.sequences
    shares = {
        "clip/low": ((kept < 1 - config.eps_low) & (signs < 0)).sum() / size,
        "clip/high": ((kept > 1 + config.eps_high) & (signs > 0)).sum() / size,
        "ratio/one": ((kept - 1).abs() <= ONE).sum() / size,
    }
    if config.dual_clip is not None:
        shares["clip/dual"] = ((kept > config.dual_clip) & (signs < 0)).sum() / size
    if kl is not None:
        shares["kl"] = torch.where(mask, kl.detach(), 0.0).sum() / totals.tokens
    if scores.entropy is not None:
        shares["entropy"] = torch.where(mask, scores.entropy.detach(), 0.0).sum() / totals.tokens
    peaks: dict[str, Tensor] = {}
    if scores.sampler is not None:
        unmoved = scores.old is None or scores.old is scores.sampler
        trainer = scores.new.detach() if unmoved or scores.old is None else scores.old
        gap = difference(trainer, scores.sampler, mask).abs()
        shares["mismatch/mean"] = gap.sum() / totals.tokens
        peaks["mismatch/max"] = gap.max()
    return Stats.of(shares, peaks, kept)
