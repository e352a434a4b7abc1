"""The Qwen3-VL vision tower with pictures of one size computed together, equal ones once: same numbers, less time.

Stock code attends picture by picture and embeds patches with a 3-D convolution; both are slow for many small pictures.
Shape letters: N = pictures of one size, T = patches of each, D = hidden size, H = heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.models.qwen3_vl import modeling_qwen3_vl as stock


def speed_up_vision(model: Any) -> bool:
    """Let a Qwen3-VL model's tower batch its pictures; the weights and the checkpoint stay as they are.

    Returns False, and changes nothing, for another architecture. Not for gradient checkpointing of the tower.
    """
    if model.config.model_type != "qwen3_vl":
        return False
    model.model.visual.forward = MethodType(_forward, model.model.visual)
    return True


def stock_vision(model: Any) -> None:
    """Undo `speed_up_vision`."""
    model.model.visual.__dict__.pop("forward", None)


def _forward(tower: Any, hidden_states: Tensor, grid_thw: Tensor, **_: Any) -> Any:
    sizes = [tuple(grid) for grid in grid_thw.tolist()]
    if any(time != 1 for time, _, _ in sizes):
        raise ValueError("speed_up_vision: pictures only, no videos")
    pictures = torch.split(hidden_states, [height * width for _, height, width in sizes])
    first = _first_equals(pictures, sizes)
    groups: dict[tuple[int, int], list[int]] = {}
    for i, (_, height, width) in enumerate(sizes):
        if first[i] == i:
            groups.setdefault((height, width), []).append(i)
    done: dict[int, list[Tensor]] = {}
    for (height, width), members in groups.items():
        outputs = _same_size(tower, torch.stack([pictures[i] for i in members]), height, width)
        done |= {member: [output[k] for output in outputs] for k, member in enumerate(members)}
    last, merged, *deep = (torch.cat(column) for column in zip(*(done[i] for i in first), strict=True))
    return stock.BaseModelOutputWithDeepstackFeatures(
        last_hidden_state=last, pooler_output=merged, deepstack_features=deep
    )


def _first_equals(pictures: Sequence[Tensor], sizes: Sequence[tuple[int, ...]]) -> list[int]:
    """For each picture the number of the first one that is the same: rollouts of one question share theirs."""
    sums = [float(total) for total in torch.stack([picture.sum() for picture in pictures])]
    seen: dict[tuple[Any, ...], list[int]] = {}
    first = list(range(len(pictures)))
    for i, (size, total) in enumerate(zip(sizes, sums, strict=True)):
        alike = seen.setdefault((size, total), [])
        match = next((j for j in alike if torch.equal(pictures[i], pictures[j])), None)
        if match is None:
            alike.append(i)
        else:
            first[i] = match
    return first


def _same_size(tower: Any, patches: Tensor, height: int, width: int) -> list[Tensor]:
    """Patches [N, T, C] -> hidden [N, T, D], merged [N, T/4, out], and one [N, T/4, out] a deepstack layer."""
    count, tokens, _ = patches.shape
    indices, weights, cos, sin = _geometry(tower, height, width, patches.device)
    proj = tower.patch_embed.proj
    x = F.linear(patches.to(proj.weight.dtype), proj.weight.flatten(1), proj.bias)
    x = x + (tower.pos_embed(indices) * weights[:, :, None]).sum(1).to(x.dtype)
    deep: list[Tensor] = []
    for i, block in enumerate(tower.blocks):
        x = x + _attention(block.attn, block.norm1(x), cos, sin)
        x = x + block.mlp(block.norm2(x))
        if i in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[list(tower.deepstack_visual_indexes).index(i)]
            deep.append(merger(x.reshape(count * tokens, -1)).view(count, tokens // tower.spatial_merge_unit, -1))
    merged = tower.merger(x.reshape(count * tokens, -1)).view(count, tokens // tower.spatial_merge_unit, -1)
    return [x, merged, *deep]


def _attention(attn: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    count, tokens, _ = x.shape
    q, k, v = attn.qkv(x).view(count, tokens, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4)
    q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
    y = F.scaled_dot_product_attention(q, k, v, scale=attn.scaling)
    out: Tensor = attn.proj(y.transpose(1, 2).reshape(count, tokens, -1))
    return out


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    y = x.float()
    left, right = y.chunk(2, -1)
    return (y * cos + torch.cat((-right, left), -1) * sin).to(x.dtype)


def _geometry(tower: Any, height: int, width: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Interpolation taps and weights [T, taps] of the position grid, rotary cos and sin [T, head size]."""
    cache = tower.__dict__.setdefault("_geometry", lru_cache(maxsize=256)(_compute_geometry))
    found: tuple[Tensor, Tensor, Tensor, Tensor] = cache(tower, height, width, device)
    return found


def _compute_geometry(tower: Any, height: int, width: int, device: torch.device) -> tuple[Tensor, ...]:
    grid = torch.tensor([[1, height, width]], device=device)
    with torch.inference_mode(False), torch.no_grad():
        indices, weights = stock.get_vision_interpolation_indices_and_weights(
            grid,
            num_grid_per_side=tower.num_grid_per_side,
            mode=tower.interpolation_mode,
            align_corners=tower.interpolation_align_corners,
            spatial_merge_size=tower.spatial_merge_size,
        )
        positions = stock.get_vision_position_ids(grid, tower.spatial_merge_size)
        cos, sin = tower.rotary_pos_emb(weights, positions)
    return indices, weights, cos.float(), sin.float()
