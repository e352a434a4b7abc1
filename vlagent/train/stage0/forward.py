"""The unmodified Qwen3-VL model in parts: pictures to features, features and ids to logits.

Shape letters: N = pictures of one size, H x W = pixels, P = patches of a picture, T = visual tokens of a picture,
I = visual tokens of a batch, B = rows, L = padded length, S = scored tokens, D = hidden size, V = vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlagent.model.chatml import rope_positions
from vlagent.train.stage0.data import Row


@dataclass(frozen=True, eq=False)
class Seen:
    """Pictures of one size as the tower gives them."""

    merged: Tensor
    """[N, T, D]"""
    deep: list[Tensor]
    """[N, T, D] a deepstack level."""
    patches: Tensor
    """[N, P, vision hidden size]: the last layer before merging."""


def patches_of(pixels: Tensor, patch: int, merge: int) -> Tensor:
    """Pictures [N, H, W, 3] with values 0 to 255 as the image processor gives them: [N * P, C] in -1 to 1."""
    count, height, width, _ = pixels.shape
    rows, columns, side = height // patch // merge, width // patch // merge, merge
    blocks = (pixels / 127.5 - 1).view(count, rows, side, patch, columns, side, patch, 3)
    ordered: Tensor = blocks.permute(0, 1, 4, 2, 5, 7, 3, 6).reshape(-1, 3 * patch * patch)
    return ordered


def look(model: Any, pixels: Tensor) -> Seen:
    """Run the vision tower on pictures [N, H, W, 3] of one size."""
    vision = model.config.vision_config
    count, height, width, _ = pixels.shape
    grid = torch.tensor([[1, height // vision.patch_size, width // vision.patch_size]] * count)
    out = model.model.visual(patches_of(pixels, vision.patch_size, vision.spatial_merge_size), grid_thw=grid)
    merged = out.pooler_output.view(count, -1, out.pooler_output.shape[-1])
    deep = [level.view(merged.shape) for level in out.deepstack_features]
    return Seen(merged, deep, out.last_hidden_state.view(count, -1, vision.hidden_size))


def augmented(pixels: NDArray[np.uint8], generator: torch.Generator) -> Tensor:
    """Pictures [N, H, W, 3] in other light: gain by channel, brightness, noise."""
    values = torch.from_numpy(np.ascontiguousarray(pixels)).float()
    count = len(values)
    gain = 0.85 + 0.3 * torch.rand(count, 1, 1, 3, generator=generator)
    lift = 40 * torch.rand(count, 1, 1, 1, generator=generator) - 20
    noise = 3 * torch.randn(values.shape, generator=generator)
    return (values * gain + lift + noise).clamp(0, 255)


def own_logits(model: Any, rows: Sequence[Row], visual: Tensor, deep: Sequence[Tensor] = ()) -> tuple[Tensor, Tensor]:
    """Logits [S, V] and targets [S] of the rows' own tokens; `visual` [I, D] stands at their placeholders in order."""
    image_pad = model.config.image_token_id
    length = max(len(row.ids) for row in rows)
    ids = np.zeros((len(rows), length), np.int64)
    own = np.zeros((len(rows), length), np.bool_)
    positions = np.zeros((3, len(rows), length), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)], own[i, : len(row.ids)] = row.ids, row.own
        positions[:, i, : len(row.ids)] = rope_positions(row.ids, row.grids, image_pad)[0]
    inputs, wanted = torch.from_numpy(ids), torch.from_numpy(own)
    text = model.model.language_model
    slots = inputs == image_pad
    embeds = text.embed_tokens(inputs).masked_scatter(slots[..., None], visual)
    extra = {"visual_pos_masks": slots, "deepstack_visual_embeds": list(deep)} if deep else {}
    hidden = text(
        inputs_embeds=embeds, position_ids=torch.from_numpy(positions), use_cache=False, **extra
    ).last_hidden_state
    return model.lm_head(hidden[:, :-1][wanted[:, 1:]]), inputs[wanted]
