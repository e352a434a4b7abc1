"""What a run holds in memory, by part. An estimate: from the model's config alone, nothing is loaded.

Bytes a weight: itself, its copy where `mixed_precision` casts it, and where it is trained a gradient and AdamW's state.
Activations are those of one forward pass of `micro_tokens` tokens at most (Korthikanti et al., arXiv 2205.05198,
without dropout and with attention that never stores its matrix).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from vlagent.errors import UserError
from vlagent.model.load import ARCHITECTURES, checkpoint_config
from vlagent.train.config import ModelConfig, SftConfig
from vlagent.train.parts import adapt, part_of
from vlagent.train.rl.config import RlConfig
from vlagent.types import Record

BYTES = {"float32": 4, "bfloat16": 2}
STATE_BYTES = {"float32": 8, "bfloat16": 10}
"""Two moments in float32; for bfloat16 also what rounding took."""
GIB = 1 << 30


class PlanPart(Record):
    """One part of the model."""

    name: str
    weights: int
    """Number of parameters."""
    trained: int
    """Of these."""


class Plan(Record):
    """Memory of one process that holds everything, in bytes. An estimate."""

    parts: tuple[PlanPart, ...]
    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    """Of one pass, as if half of its tokens were the model's own, in float32 with gradient."""
    reference: int = 0
    """The model before training, which the KL term is taken against."""
    note: str = "An estimate from config.json; buffers of the allocator and of kernels come on top (10-20 %)."

    @property
    def total(self) -> int:
        held = self.weights + self.gradients + self.optimizer + self.reference
        return held + self.activations + self.logits


def plan_sft(config: SftConfig) -> Plan:
    """The plan of a configuration. Raises `UserError` where the model's folder has no config.json."""
    return _plan(config.model, config.batch.micro_tokens)


def plan_rl(config: RlConfig) -> Plan:
    """The plan of a run of reinforcement learning: the update. What the rollout engine caches comes on top."""
    plan = _plan(config.model, config.batch.micro_tokens)
    own_reference = config.algorithm.beta > 0 and config.model.lora is None
    reference = sum(part.weights for part in plan.parts) * BYTES[config.model.dtype] if own_reference else 0
    engine = "keys and values of the episodes that run at once (engine.*) come on top where the engine is in_process"
    return plan.model_copy(update={"reference": reference, "note": f"{plan.note[:-1]}; {engine}."})


def _plan(config: ModelConfig, micro_tokens: int) -> Plan:
    model, hf = empty_model(config)
    parts = _parts(model)
    bytes_each = BYTES[config.dtype]
    trained = sum(part.trained for part in parts)
    return Plan(
        parts=parts,
        weights=sum(part.weights for part in parts) * (bytes_each + (2 if config.mixed_precision != "no" else 0)),
        gradients=trained * bytes_each,
        optimizer=trained * STATE_BYTES[config.dtype],
        activations=_activations(hf, config, micro_tokens),
        logits=micro_tokens // 2 * hf.get_text_config().vocab_size * 4 * 2,
    )


def empty_model(config: ModelConfig) -> tuple[Any, Any]:
    """The model without its weights (and with its adapters), frozen as configured, and its transformers config."""
    folder = Path(config.path)
    if not (folder / "config.json").is_file():
        raise UserError(f"model.path = {config.path!r}: no config.json there, so not a checkpoint folder")
    hf = checkpoint_config(folder)
    with torch.device("meta"):
        model = ARCHITECTURES[hf.model_type][0](hf)
        for name, weight in model.named_parameters():
            weight.requires_grad_(part_of(name) not in config.freeze)
        if config.lora is not None:
            model = adapt(model, config.lora, 0)
    return model, hf


def _parts(model: Any) -> tuple[PlanPart, ...]:
    counts: dict[str, list[int]] = {name: [0, 0] for name in ("vision", "projector", "language")}
    for name, weight in model.named_parameters():
        part = "adapters" if ".lora_" in name else part_of(name)
        found = counts.setdefault(part, [0, 0])
        found[0] += weight.numel()
        found[1] += weight.numel() * weight.requires_grad
    return tuple(PlanPart(name=name, weights=all_, trained=some) for name, (all_, some) in counts.items())


def _activations(hf: Any, config: ModelConfig, micro_tokens: int) -> int:
    """Of the decoder: a layer keeps about 10 hidden and 3 feed-forward vectors a token for its backward pass."""
    text = hf.get_text_config()
    size = 2 if config.mixed_precision != "no" else BYTES[config.dtype]
    layer = (10 * text.hidden_size + 3 * text.intermediate_size) * size
    kept = text.num_hidden_layers * layer
    if config.gradient_checkpointing:
        kept = text.num_hidden_layers * text.hidden_size * size + layer
    return int(micro_tokens * kept)


def plan_table(plan: Plan) -> str:
    """Lines for a terminal."""
    lines = ["Memory of one process without sharding, an ESTIMATE:"]
    for part in plan.parts:
        lines.append(f"  {part.name:<12}{part.weights:>16,} weights{part.trained:>16,} trained")
    for name in ("weights", "gradients", "optimizer", "reference", "activations", "logits", "total"):
        lines.append(f"  {name:<12}{getattr(plan, name) / GIB:>12.3f} GiB")
    return "\n".join([*lines, f"  {plan.note}"])
