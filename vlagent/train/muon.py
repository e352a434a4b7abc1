"""Muon: momentum whose update is made orthogonal, for the matrices of hidden layers (Jordan et al., 2024).

Embeddings, norms, biases and heads go to AdamW beside it. Small vision towers learn to read 1.5 to 2 times faster so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration, tuned for slope at zero by the method's author."""


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised by five Newton-Schulz steps, with decoupled weight decay."""

    def __init__(
        self, params: Iterable[nn.Parameter], lr: float = 0.02, momentum: float = 0.9, weight_decay: float = 0.01
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update; matrices of one shape are orthogonalised together."""
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            shapes: dict[tuple[int, int], list[nn.Parameter]] = {}
            for weight in group["params"]:
                if weight.grad is not None:
                    shapes.setdefault((weight.shape[0], weight[0].numel()), []).append(weight)
            for (rows, columns), weights in shapes.items():
                together = torch.stack([self._direction(w, group["momentum"]).view(rows, columns) for w in weights])
                scale = group["lr"] * max(1.0, rows / columns) ** 0.5
                for weight, update in zip(weights, orthogonal(together), strict=True):
                    weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(update.view_as(weight), alpha=-scale)

    def _direction(self, weight: nn.Parameter, momentum: float) -> Tensor:
        assert weight.grad is not None
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        state["momentum"].mul_(momentum).add_(weight.grad)
        direction: Tensor = weight.grad + momentum * state["momentum"]
        return direction


def orthogonal(matrices: Tensor, steps: int = 5) -> Tensor:
    """[N, R, C] -> matrices with the same singular vectors and singular values near 1."""
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    a, b, c = NEWTON_SCHULZ
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = a * x + (b * gram + c * gram @ gram) @ x
    square: Tensor = x if wide else x.transpose(1, 2)
    return square


class MatrixAndRest:
    """Muon on the matrices of hidden layers, AdamW on everything else; one schedule for both."""

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], lr: float, muon_lr: float) -> None:
        """Raises ValueError if there is nothing to train."""
        matrices: list[nn.Parameter] = []
        self.rest: list[nn.Parameter] = []
        for name, weight in named:
            (matrices if is_hidden_matrix(name, weight) else self.rest).append(weight)
        if not self.rest:
            raise ValueError("no parameter to train")
        self._parts: list[tuple[torch.optim.Optimizer, float]] = [
            (torch.optim.AdamW(self.rest, lr, betas=(0.9, 0.98), weight_decay=0.01), lr)
        ]
        if matrices:
            self._parts.append((Muon(matrices, muon_lr), muon_lr))

    def step(self, rate: float, clip: float = 2.0) -> None:
        """Update at `rate` times the learning rates, gradients of the rest clipped to norm `clip`; then clear them."""
        torch.nn.utils.clip_grad_norm_(self.rest, clip)
        for optimiser, lr in self._parts:
            for group in optimiser.param_groups:
                group["lr"] = lr * rate
            optimiser.step()
            optimiser.zero_grad()

    def state_dict(self) -> list[Any]:
        return [optimiser.state_dict() for optimiser, _ in self._parts]

    def load_state_dict(self, states: list[Any]) -> None:
        for (optimiser, _), state in zip(self._parts, states, strict=True):
            optimiser.load_state_dict(state)


def is_hidden_matrix(name: str, weight: Tensor) -> bool:
    """Whether Muon takes it: a matrix of a block of the vision tower or of the decoder."""
    return weight.dim() >= 2 and ("visual.blocks" in name or "language_model.layers" in name)


def warm_then_linear(step: int, steps: int, warm: int = 30, end: float = 0.08) -> float:
    """Rate in (0, 1] at a step from 0: up over `warm` steps, then linearly down to `end`."""
    return min(1.0, (step + 1) / warm) * (1 - (1 - end) * min(1.0, step / max(1, steps)))
