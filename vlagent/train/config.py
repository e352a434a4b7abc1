"""What a fine-tuning run is. Importable without torch; every mistake is one line that names the key."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from vlagent.agent.config import AgentConfig
from vlagent.bench.selection import Selection
from vlagent.types import Record

Beta = Annotated[float, Field(ge=0, lt=1)]
Part = Literal["vision", "projector", "language"]
"""The vision tower, what maps its output into the decoder, and the decoder with its embeddings."""


class SourceConfig(Selection):
    """One run folder that rows are made of, and which of its episodes."""

    run: str
    """Folder with samples.jsonl and trajectories.jsonl (and rows.jsonl for `only_right`)."""
    mask_invalid: bool = False
    """No loss on turns that held no valid action."""
    limit: int | None = Field(default=None, ge=1)
    """Rows of this source at most, the first ones."""
    share: float = Field(default=1.0, gt=0, le=1000)
    """How often an epoch sees each of its rows: 0.5 is half of them, drawn anew each epoch; 2 is each twice."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Of its tokens in the loss."""
    dialect: str | None = None
    """Write the turns in this dialect; None keeps them as they were written."""


class LoraConfig(Record):
    """Low-rank adapters on the decoder's linear layers (arXiv 2106.09685). The rest is frozen."""

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0, lt=1)
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class ModelConfig(Record):
    """The weights and how they are held."""

    path: str
    """A checkpoint folder."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights; in bfloat16 the optimizer keeps what rounding takes. `mixed_precision` casts float32 weights for
    the arithmetic only."""
    mixed_precision: Literal["no", "bf16", "fp16"] = "no"
    device: Literal["auto", "cpu"] = "auto"
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    freeze: tuple[Part, ...] = ("vision", "projector")
    gradient_checkpointing: bool = False
    lora: LoraConfig | None = None
    threads: int | None = Field(default=None, ge=1)
    """Torch threads on a CPU; None leaves torch's own setting."""
    export_dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Of the exported file; None is `dtype`."""


class BatchConfig(Record):
    """How rows are put together. What a step holds does not depend on the number of processes."""

    rows: int = Field(default=64, ge=1)
    """Rows of one optimizer step, over all processes."""
    micro_rows: int = Field(default=8, ge=1)
    """Rows of one forward pass at most."""
    micro_tokens: int = Field(default=65_536, ge=1)
    """Tokens of one forward pass at most, padding included; a longer row goes alone."""
    max_tokens: int = Field(default=32_768, ge=2)
    """Longer rows are left out and counted."""
    bucket_steps: int = Field(default=1, ge=1)
    """Rows are sorted by length within so many steps; 1 keeps the content of a step fully random."""


class OptimConfig(Record):
    """AdamW and its learning rate."""

    lr: float = Field(default=1e-5, gt=0, allow_inf_nan=False)
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: float = Field(default=0.03, ge=0, lt=1)
    """Share of all steps."""
    final: float = Field(default=0.0, ge=0, le=1)
    """Learning rate at the end, as a share of the highest."""
    weight_decay: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """On matrices only."""
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0, allow_inf_nan=False)
    clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient."""


class ValidationConfig(Record):
    """What is measured while training: the loss on rows, and success in free running."""

    every: int = Field(default=100, ge=1)
    """Steps; the last step is always validated."""
    sources: tuple[SourceConfig, ...] = ()
    """Rows for the validation loss."""
    data: str | None = None
    """Manifest (`manifest.json:entry`) that is played for the success rate."""
    search: str | None = None
    """Index folder for its tools."""
    limit: int | None = Field(default=None, ge=1)
    """Questions of the manifest at most."""
    agent: AgentConfig = AgentConfig()
    concurrency: int = Field(default=64, ge=1)

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if self.data is None and not self.sources:
            raise ValueError("validation measures nothing; name its data (a manifest) or its sources (run folders)")
        return self


class SaveConfig(Record):
    """Checkpoints and the export."""

    every: int = Field(default=100, ge=1)
    """Steps."""
    keep: int = Field(default=2, ge=1)
    """Checkpoints that stay."""


PRESETS: dict[str, dict[str, Any]] = {
    "mars-paper-sft": {"epochs": 3, "optim": {"lr": 1e-5}, "model": {"freeze": ["vision", "projector"]}},
}
"""Published settings (SenseNova-MARS, arXiv 2512.24330, section 3.2); what a config says wins over them."""


class SftConfig(Record):
    """One run of supervised fine-tuning."""

    verb: Literal["sft"] = "sft"
    preset: str | None = None
    run: str | None = None
    """Run folder; None is runs/sft-<time>."""
    seed: int = 0
    """Of the order of rows, of adapters' first weights and of dropout."""
    epochs: int = Field(default=3, ge=1)
    max_steps: int | None = Field(default=None, ge=1)
    """Ends earlier than the epochs would."""
    model: ModelConfig
    sources: tuple[SourceConfig, ...] = Field(min_length=1)
    batch: BatchConfig = BatchConfig()
    optim: OptimConfig = OptimConfig()
    validation: ValidationConfig | None = None
    save: SaveConfig = SaveConfig()

    @model_validator(mode="before")
    @classmethod
    def _starts_from_its_preset(cls, table: Any) -> Any:
        return over_preset(PRESETS, table)

    @model_validator(mode="after")
    def _trains_something(self) -> Self:
        refuse_all_frozen(self.model)
        return self


def refuse_all_frozen(model: ModelConfig) -> None:
    """ValueError where nothing would be trained."""
    if model.lora is None and set(model.freeze) >= {"vision", "projector", "language"}:
        raise ValueError("model.freeze names every part, so nothing would be trained")


def over_preset(presets: dict[str, dict[str, Any]], table: Any) -> Any:
    """`table` with what only the preset that it names says filled in. ValueError where there is no such preset."""
    name = table.get("preset") if isinstance(table, dict) else None
    if name is None:
        return table
    if name not in list(presets):
        raise ValueError(f"no preset {name!r}; there are {', '.join(presets)}")
    return over(presets[name], table)


def over(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """`table` with what only `base` says filled in."""
    merged = dict(base)
    for name, value in table.items():
        below = base.get(name)
        merged[name] = over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
