"""Drawing tokens from logits, each row with its own settings and its own keyed random number.

Shape letters: R = rows, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlagent.chat.tokens import TokenParams
from vlagent.model.logprobs import masked_log_softmax
from vlagent.randomness import Key, seed_of

_BLOCK = 256


class Uniforms:
    """The random numbers in [0, 1) of one reply: position p always gets the same one, whatever else runs."""

    def __init__(self, key: Key) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed_of("token", *key)))
        self._drawn: NDArray[np.float64] = np.empty(0)

    def at(self, position: int) -> float:
        while position >= len(self._drawn):
            self._drawn = np.concatenate((self._drawn, self._generator.random(_BLOCK)))
        return float(self._drawn[position])


def draw(
    logits: Tensor,
    params: Sequence[TokenParams],
    written: Sequence[Sequence[int]],
    uniforms: Sequence[float],
    banned: Sequence[int],
) -> tuple[list[int], list[float]]:
    """A token a row and its log-probability (see `TokenOutput.logprobs`).

    `written` are the ids that each row has produced so far (for the presence penalty). Temperature 0 is the argmax.
    """
    temperatures = logits.new_tensor([p.temperature or 1.0 for p in params], dtype=torch.float32)[:, None]
    logprobs = masked_log_softmax(logits.float() / temperatures, banned)
    source = logprobs
    if any(p.presence_penalty for p in params):
        source = masked_log_softmax(_penalised(logits, params, written) / temperatures, banned)
    chosen = source.argmax(-1)
    hot = [i for i, p in enumerate(params) if p.temperature > 0]
    if hot:
        drawn = _inverse_cdf(_truncated(source[hot], [params[i] for i in hot]), [uniforms[i] for i in hot])
        chosen[hot] = drawn
    picked = logprobs.gather(-1, chosen[:, None])[:, 0]
    return chosen.tolist(), picked.tolist()


def _penalised(logits: Tensor, params: Sequence[TokenParams], written: Sequence[Sequence[int]]) -> Tensor:
    out = logits.float().clone()
    for i, (p, ids) in enumerate(zip(params, written, strict=True)):
        if p.presence_penalty and ids:
            out[i, sorted(set(ids))] -= p.presence_penalty
    return out


def _truncated(logprobs: Tensor, params: Sequence[TokenParams]) -> Tensor:
    """Probabilities [R, V] after top-k, then top-p of what is left (not normalised)."""
    probs = logprobs.exp()
    if all(not p.top_k and (p.top_p is None or p.top_p >= 1) for p in params):
        return probs
    ordered, order = probs.sort(dim=-1, descending=True, stable=True)
    size = probs.shape[-1]
    k = torch.tensor([p.top_k or size for p in params], device=probs.device)[:, None]
    top_p = torch.tensor([1.0 if p.top_p is None else p.top_p for p in params], device=probs.device)[:, None]
    ordered = ordered.masked_fill(torch.arange(size, device=probs.device) >= k, 0.0)
    before = ordered.cumsum(-1) - ordered
    full = ordered.sum(-1, keepdim=True)
    keep = (before < top_p * full) | (top_p >= 1)
    keep[:, 0] = True
    return torch.zeros_like(probs).scatter(-1, order, ordered * keep)


def _inverse_cdf(probs: Tensor, uniforms: Sequence[float]) -> Tensor:
    """The token at which the cumulated probability passes each uniform number; never one of probability 0."""
    exact = probs if probs.device.type == "mps" else probs.double()
    cumulated = exact.cumsum(-1)
    target = exact.new_tensor(uniforms)[:, None] * cumulated[:, -1:]
    found = torch.searchsorted(cumulated, target, right=True)
    last = probs.shape[-1] - 1 - (probs.flip(-1) > 0).int().argmax(-1, keepdim=True)
    return torch.minimum(found, last)[:, 0]
