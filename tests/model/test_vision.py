from __future__ import annotations

from typing import Any

import torch

from vlagent.model.logprobs import stack_pixels
from vlagent.model.vision import speed_up_vision, stock_vision


def _features(policy: Any, parts: Any) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    values, grid = stack_pixels([policy.processor.load(part) for part in parts])
    policy.model.zero_grad()
    out = policy.model.model.get_image_features(values, grid, return_dict=True)
    levels = [torch.cat(out.pooler_output), *(torch.cat(level) for level in out.deepstack_features)]
    sum(level.square().sum() for level in levels).backward()
    grads = {n: p.grad.clone() for n, p in policy.model.model.visual.named_parameters() if p.grad is not None}
    policy.model.zero_grad()
    return [level.detach() for level in levels], grads


def test_pictures_computed_together_equal_the_stock_tower_values_and_gradients(policy: Any, parts: Any) -> None:
    if policy.model_type != "qwen3_vl":
        assert speed_up_vision(policy.model) is False
        return
    stock, stock_grads = _features(policy, parts)
    assert speed_up_vision(policy.model) is True
    try:
        fast, fast_grads = _features(policy, parts)
    finally:
        stock_vision(policy.model)
    assert len(fast) == len(stock) == 2
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(fast, stock, strict=True))
    assert fast_grads.keys() == stock_grads.keys()
    for name, grad in stock_grads.items():
        assert torch.allclose(fast_grads[name], grad, atol=1e-4 * (1 + grad.abs().max().item())), name


def test_undoing_it_restores_the_stock_forward(policy: Any) -> None:
    speed_up_vision(policy.model)
    stock_vision(policy.model)
    assert "forward" not in policy.model.model.visual.__dict__


def test_equal_pictures_are_computed_once_and_count_as_often_as_they_come(policy: Any, parts: Any) -> None:
    if policy.model_type != "qwen3_vl":
        return
    repeated = [*parts, parts[0], parts[-1], parts[0]]
    stock, stock_grads = _features(policy, repeated)
    speed_up_vision(policy.model)
    computed = []
    first = policy.model.model.visual.blocks[0].norm1
    handle = first.register_forward_pre_hook(lambda _, x: computed.append(len(x[0])))
    try:
        fast, fast_grads = _features(policy, repeated)
    finally:
        handle.remove()
        stock_vision(policy.model)
    assert sum(computed) == len(parts)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(fast, stock, strict=True))
    for name, grad in stock_grads.items():
        assert torch.allclose(fast_grads[name], grad, atol=1e-4 * (1 + grad.abs().max().item())), name
