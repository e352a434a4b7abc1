"""AdamW for weights in bfloat16: moments in float32, and what rounding takes from an update is kept for the next one.

At a learning rate of 1e-5 an update is smaller than the spacing of bfloat16 numbers, so plain AdamW on such weights
changes next to nothing. Compensated summation (Kahan; for training: Zamirai et al., arXiv 2010.06192) repairs that at 2
bytes a weight: 14 in all with the gradient, against 16 for weights in float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class CompensatedAdamW(torch.optim.Optimizer):
    """AdamW (arXiv 1711.05101) whose weights may have any float type."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """One update of every weight that has a gradient."""
        if closure is not None:
            raise ValueError("CompensatedAdamW takes no closure")
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, group)

    def _move(self, weight: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["first"] = torch.zeros_like(weight, dtype=torch.float32)
            state["second"] = torch.zeros_like(weight, dtype=torch.float32)
            state["lost"] = torch.zeros_like(weight)
        state["step"] += 1
        (one, two), count = group["betas"], state["step"].item()
        assert weight.grad is not None
        gradient = weight.grad.float()
        state["first"].lerp_(gradient, 1 - one)
        state["second"].mul_(two).addcmul_(gradient, gradient, value=1 - two)
        size = (state["second"] / (1 - two**count)).sqrt_().add_(group["eps"])
        exact = weight.to(torch.float32, copy=True).mul_(1 - group["lr"] * group["weight_decay"]).add_(state["lost"])
        exact.addcdiv_(state["first"], size, value=-group["lr"] / (1 - one**count))
        weight.copy_(exact)
        state["lost"].copy_(exact.sub_(weight))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As saved: torch would cast the moments to the type of the weights."""
        super().load_state_dict(state_dict)
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, saved in state_dict["state"].items():
            weight = weights[index]
            for name, value in saved.items():
                device = "cpu" if name == "step" else weight.device
                self.state[weight][name] = value.clone().to(device)
