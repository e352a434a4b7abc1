"""The weights of a run: which of them are trained, adapters, and the folder that is written at the end."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vlagent.errors import UserError
from vlagent.model.load import Policy, load_policy
from vlagent.model.vision import speed_up_vision
from vlagent.train.config import LoraConfig, ModelConfig, Part
from vlagent.train.whole import whole_folder


def part_of(name: str) -> Part:
    """The part that a parameter belongs to, by its name in the plain or in the adapted model."""
    if "visual." not in name:
        return "language"
    return "projector" if "merger" in name.split("visual.", 1)[1].split(".", 1)[0] else "vision"


def load_trainee(config: ModelConfig, device: str, seed: int) -> Policy:
    """The policy of a checkpoint folder, its frozen parts frozen and its adapters in place, in training mode."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    policy = load_policy(Path(config.path), device=device, dtype=config.dtype, attention=config.attention)
    for name, weight in policy.model.named_parameters():
        weight.requires_grad_(part_of(name) not in config.freeze)
    if config.lora is not None:
        policy.model = adapt(policy.model, config.lora, seed)
    if config.gradient_checkpointing:
        policy.model.gradient_checkpointing_enable({"use_reentrant": False})
    elif device == "cpu":
        speed_up_vision(plain(policy.model))
    policy.model.train()
    return policy


def adapt(model: nn.Module, config: LoraConfig, seed: int) -> Any:
    """The model with adapters on the decoder's linear layers; everything else is frozen."""
    from peft import LoraConfig as PeftLora
    from peft import get_peft_model

    targets = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and part_of(name) == "language" and name.endswith(config.targets)
    ]
    if not targets:
        raise UserError(f"model.lora.targets = {list(config.targets)}: the decoder has no linear layer of these names")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        peft = PeftLora(
            r=config.rank, lora_alpha=config.alpha, lora_dropout=config.dropout, target_modules=targets, bias="none"
        )
        return get_peft_model(model, peft)


def plain(model: Any) -> Any:
    """The transformers model inside the adapters, if there are any."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


AGENT_FILE = "agent.json"
"""How episodes have to run for a checkpoint; it lies beside the weights and goes along with them."""


def export(policy: Policy, folder: Path, dtype: str | None, parent: Path | None = None) -> None:
    """Write what plain transformers loads: adapters are merged, and lie beside it too. Old content is replaced.

    `parent` is the checkpoint that training began with: its agent settings hold for this one as well.
    """
    model, merged = policy.model, policy.model
    with whole_folder(folder) as partial:
        if hasattr(model, "merge_and_unload"):
            model.save_pretrained(partial / "adapter")
            merged = _merged(model)
        kind = None if dtype is None else getattr(torch, dtype)
        Policy(merged, policy.processor, policy.name).save(partial, dtype=kind)
        if parent is not None and (parent / AGENT_FILE).exists():
            shutil.copy(parent / AGENT_FILE, partial / AGENT_FILE)


def _merged(model: Any) -> Any:
    """A copy with the adapters added to the weights; the model that is trained stays as it is."""
    import copy

    return copy.deepcopy(model).merge_and_unload()
