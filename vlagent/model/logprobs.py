"""Log-probabilities of given ids, with pictures in any turn. The same function of the ids as the sampler reports.

Rows are padded on the right: under causal attention nothing real ever sees the padding. Shape letters: B = rows,
L = padded length, S = scored tokens of the batch, V = vocabulary, N = pictures, P = patches of all pictures,
C = values of a patch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vlagent.chat.base import ImagePart
from vlagent.model.chatml import rope_positions
from vlagent.model.load import Pixels, Processor
from vlagent.types import Ids


@dataclass(frozen=True, eq=False)
class ScoredRow:
    """One row before it is batched."""

    ids: Ids
    """[L]"""
    own: NDArray[np.bool_]
    """[L]; True where a log-probability is wanted. Position 0 has none and must be False."""
    images: Sequence[ImagePart] | Sequence[Pixels]
    """In the order of their placeholders."""


@dataclass(eq=False)
class Batch:
    """Rows as one set of tensors."""

    input_ids: Tensor
    """[B, L]"""
    position_ids: Tensor
    """[3, B, L]: time, height, width."""
    own: Tensor
    """[B, L] bool; False on padding."""
    pixel_values: Tensor | None
    """[P, C]"""
    image_grid_thw: Tensor | None
    """[N, 3] in patches."""

    def to(self, device: torch.device | str) -> Batch:
        move = [None if x is None else x.to(device) for x in (self.pixel_values, self.image_grid_thw)]
        return Batch(self.input_ids.to(device), self.position_ids.to(device), self.own.to(device), move[0], move[1])


def collate(rows: Sequence[ScoredRow], processor: Processor, *, multiple_of: int = 1) -> Batch:
    """Pad rows on the right. Raises ValueError for a row whose pictures and placeholders disagree."""
    longest = max(len(row.ids) for row in rows)
    length = -(-longest // multiple_of) * multiple_of
    pad, slot = processor.vocabulary.pad, processor.vocabulary.ids["<|image_pad|>"]
    ids = np.full((len(rows), length), pad, np.int64)
    own = np.zeros((len(rows), length), np.bool_)
    positions = np.zeros((3, len(rows), length), np.int64)
    pictures: list[Pixels] = []
    for i, row in enumerate(rows):
        mine = [part if isinstance(part, Pixels) else processor.load(part) for part in row.images]
        grids = [(pixels.grid[0] // processor.merge, pixels.grid[1] // processor.merge) for pixels in mine]
        ids[i, : len(row.ids)], own[i, : len(row.ids)] = row.ids, row.own
        positions[:, i, : len(row.ids)] = rope_positions(row.ids, grids, slot)[0]
        pictures.extend(mine)
    values, grid = stack_pixels(pictures) if pictures else (None, None)
    return Batch(torch.from_numpy(ids), torch.from_numpy(positions), torch.from_numpy(own), values, grid)


def stack_pixels(pictures: Sequence[Pixels]) -> tuple[Tensor, Tensor]:
    """Patches [P, C] and grids [N, 3] of several pictures."""
    grid = torch.tensor([[1, *pixels.grid] for pixels in pictures])
    return torch.cat([pixels.patches for pixels in pictures]), grid


def token_logprobs(model: nn.Module, batch: Batch, banned: Sequence[int], temperature: float = 1.0) -> Tensor:
    """[B, L]: the log-probability of each own token given all before it, 0 elsewhere. Gradients flow.

    `model` may be wrapped (DDP, FSDP, PEFT): everything runs inside its forward. Temperature 0 counts as 1.
    """
    return _on_rows(batch, _chosen(batch, _distributions(model, batch, banned, temperature)))


def token_logprobs_entropy(
    model: nn.Module, batch: Batch, banned: Sequence[int], temperature: float = 1.0, *, gradient: bool = True
) -> tuple[Tensor, Tensor]:
    """As `token_logprobs`, and the entropy [B, L] of the distribution that each own token was drawn from.

    Without `gradient` the entropy is a number to watch: it has no gradient and takes next to no memory.
    """
    logprobs = _distributions(model, batch, banned, temperature)
    if gradient:
        entropy = _entropy(logprobs)
    else:
        parts = torch.split(logprobs.detach(), ENTROPY_ROWS)
        entropy = torch.cat([_entropy(part) for part in parts])
    return _on_rows(batch, _chosen(batch, logprobs)), _on_rows(batch, entropy)


ENTROPY_ROWS = 512
"""Distributions whose entropy is computed at a time where no gradient is wanted."""


def _entropy(logprobs: Tensor) -> Tensor:
    return -(logprobs.exp() * logprobs.masked_fill(logprobs == -torch.inf, 0.0)).sum(-1)


def _distributions(model: nn.Module, batch: Batch, banned: Sequence[int], temperature: float) -> Tensor:
    """Log-probabilities [S, V] of what could have stood at each own position."""
    if bool(batch.own[:, 0].any()):
        raise ValueError("the first token of a row has no log-probability: its `own` must be False")
    before = torch.zeros_like(batch.own)
    before[:, :-1] = batch.own[:, 1:]
    return masked_log_softmax(forward_logits(model, batch, before), banned, temperature)


def _chosen(batch: Batch, logprobs: Tensor) -> Tensor:
    return logprobs.gather(-1, batch.input_ids[batch.own][:, None])[:, 0]


def _on_rows(batch: Batch, values: Tensor) -> Tensor:
    """[S] -> [B, L], 0 where nothing is scored."""
    zeros = torch.zeros(batch.own.shape, dtype=values.dtype, device=values.device)
    return zeros.masked_scatter(batch.own, values)


def forward_logits(model: nn.Module, batch: Batch, keep: Tensor) -> Tensor:
    """Logits [S, V] at the positions where `keep` [B, L] is True, row by row, through the model's own forward."""
    logits: Tensor = model(
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        pixel_values=batch.pixel_values,
        image_grid_thw=batch.image_grid_thw,
        use_cache=False,
        logits_to_keep=keep,
    ).logits
    return logits


def masked_log_softmax(logits: Tensor, banned: Sequence[int], temperature: float = 1.0) -> Tensor:
    """Log-probabilities [..., V] in float32 of logits without the banned ids, over temperature (0 counts as 1)."""
    scaled = logits.float() / (temperature or 1.0)
    ban = torch.zeros(logits.shape[-1], dtype=torch.bool, device=logits.device)
    ban[list(banned)] = True
    return torch.log_softmax(scaled.masked_fill(ban, -torch.inf), -1)
