"""A pytest plugin that breaks the trainer of fine-tuning, to see that its tests notice (`BREAK=properties`).

Frozen parts are trained after all, the loss of this process is divided by something else than that of others, and a
resumed run forgets its optimizer.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from accept.breaking import put


def pytest_configure() -> None:
    """Break it, where the environment asks for that."""
    if not os.environ.get("VLAGENT_SABOTAGE"):
        return
    from vlagent.train import checkpoint, sft
    from vlagent.train.checkpoint import Position, read_checkpoint
    from vlagent.train.loss import own_weight
    from vlagent.train.parts import load_trainee

    def thaw(config: Any, device: str, seed: int) -> Any:
        policy = load_trainee(config, device, seed)
        for weight in policy.model.parameters():
            weight.requires_grad_(True)
        return policy

    def forget(folder: Path, model: torch.nn.Module, optimizer: Any, kind: type[Position]) -> Position:
        position = read_checkpoint(folder, model, optimizer, kind)
        optimizer.state.clear()
        return position

    put(sft, load_trainee=thaw, own_weight=lambda rows: 1.5 * own_weight(rows))
    put(checkpoint, read_checkpoint=forget)
