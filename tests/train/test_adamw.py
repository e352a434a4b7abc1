from __future__ import annotations

from typing import Any

import pytest
import torch

from vlagent.train.adamw import CompensatedAdamW


def _run(kind: Any, dtype: torch.dtype, lr: float, steps: int = 50, **options: Any) -> torch.Tensor:
    weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, 64).to(torch.bfloat16).to(dtype))
    optimizer = kind([weight], lr=lr, **options)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        weight.grad = (torch.rand(64, generator=generator) + 0.5).to(torch.bfloat16).to(dtype)
        optimizer.step()
    return weight.detach().float()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_in_float32_it_is_torchs_adamw(decay: float) -> None:
    ours = _run(CompensatedAdamW, torch.float32, 1e-2, weight_decay=decay, betas=(0.8, 0.95))
    theirs = _run(torch.optim.AdamW, torch.float32, 1e-2, weight_decay=decay, betas=(0.8, 0.95))
    assert torch.allclose(ours, theirs, atol=1e-6)


def test_small_updates_of_bfloat16_weights_add_up_where_plain_adamw_loses_them() -> None:
    exact = _run(CompensatedAdamW, torch.float32, 1e-4)
    kept = _run(CompensatedAdamW, torch.bfloat16, 1e-4)
    start = torch.linspace(0.5, 1.5, 64).to(torch.bfloat16).float()
    assert (start - exact).min() > 0.004
    assert (kept - exact).abs().max() <= 2**-8
    assert torch.equal(_run(torch.optim.AdamW, torch.bfloat16, 1e-4), start)


def test_a_loaded_state_goes_on_to_the_same_bits() -> None:
    first, second = (torch.nn.Parameter(torch.ones(8, dtype=torch.bfloat16)) for _ in range(2))
    a, b = CompensatedAdamW([first], lr=1e-3), CompensatedAdamW([second], lr=1e-3)
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(8, generator=generator).to(torch.bfloat16) for _ in range(6)]
    for gradient in gradients[:3]:
        first.grad = gradient
        a.step()
    with torch.no_grad():
        second.copy_(first)
    b.load_state_dict(a.state_dict())
    assert b.state[second]["second"].dtype == torch.float32
    for gradient in gradients[3:]:
        first.grad, second.grad = gradient, gradient
        a.step()
        b.step()
    assert torch.equal(first, second)
    assert torch.equal(a.state[first]["lost"], b.state[second]["lost"])
