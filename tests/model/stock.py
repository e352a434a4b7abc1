"""The unmodified transformers forward, one row at a time: what everything else is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from vlagent.chat.base import ImagePart
from vlagent.model.logprobs import stack_pixels


def stock_logits(policy: Any, ids: np.ndarray, images: Sequence[ImagePart]) -> torch.Tensor:
    """[L, V], with transformers' own positions and attention mask."""
    processor = policy.processor
    row = torch.from_numpy(np.asarray(ids))[None]
    pictures: dict[str, torch.Tensor] = {}
    if images:
        values, grid = stack_pixels([processor.load(part) for part in images])
        slots = (row == processor.vocabulary.ids["<|image_pad|>"]).int()
        pictures = {"pixel_values": values, "image_grid_thw": grid, "mm_token_type_ids": slots}
    with torch.no_grad():
        return policy.model(input_ids=row, attention_mask=torch.ones_like(row), **pictures).logits[0]


def stock_logprobs(policy: Any, ids: np.ndarray, images: Sequence[ImagePart], temperature: float) -> np.ndarray:
    """[L]; 0 at the first token."""
    logits = stock_logits(policy, ids, images).float() / temperature
    logits[:, list(policy.processor.vocabulary.banned)] = -torch.inf
    chosen = torch.log_softmax(logits[:-1], -1).gather(-1, torch.from_numpy(np.asarray(ids))[1:, None])[:, 0]
    return np.concatenate(([0.0], chosen.numpy()))
