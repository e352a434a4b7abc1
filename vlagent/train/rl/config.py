"""What a run of reinforcement learning is. Importable without torch; every mistake is one line that names the key."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vlagent.train.config import (
    BatchConfig,
    ModelConfig,
    OptimConfig,
    SaveConfig,
    ValidationConfig,
    over_preset,
    refuse_all_frozen,
)
from vlagent.train.rl.algorithms.config import AlgorithmConfig
from vlagent.train.rl.data import DataConfig
from vlagent.train.rl.engines import EngineConfig
from vlagent.train.rl.masking import MaskingConfig
from vlagent.train.rl.presets import PRESETS
from vlagent.train.rl.rewards import RewardConfig
from vlagent.train.rl.rollout import RolloutConfig
from vlagent.train.rl.watch import WatchConfig
from vlagent.types import Record

GROUPED = frozenset({"grpo", "gspo", "bn_gspo", "gdpo", "reinforce_pp_baseline", "dr_grpo"})
"""Advantages of ours that are 0 in a group of one."""


class RlBatchConfig(Record):
    """The size of a step and how it is cut. What a step holds does not depend on the number of processes."""

    prompts: int = Field(default=16, ge=1)
    """Questions of a step, over all processes; a group each."""
    samples: int = Field(default=8, ge=1)
    """Episodes of each question."""
    minibatches: int = Field(default=1, ge=1)
    """Optimizer steps on the episodes of a step, on whole groups. With 1 the importance ratio is 1."""
    old_logprobs: Literal["sampler", "trainer"] = "sampler"
    """What the ratio is taken against: the rollout engine's numbers, or the trainer's own before the step (one more
    forward pass where there are several minibatches; needed for truncated importance sampling)."""
    every_row: bool = False
    """Also pass rows of advantage 0 through the model, where neither KL nor entropy bonus needs them."""
    micro_rows: int = Field(default=32, ge=1)
    """Rows of one forward pass at most."""
    micro_tokens: int = Field(default=65_536, ge=1)
    """Tokens of one forward pass at most, padding included; a longer row goes alone."""

    @property
    def passes(self) -> BatchConfig:
        """How rows are cut into forward passes."""
        return BatchConfig(micro_rows=self.micro_rows, micro_tokens=self.micro_tokens)

    @model_validator(mode="after")
    def _has_a_group_for_each_minibatch(self) -> Self:
        if self.minibatches > self.prompts:
            raise ValueError(f"minibatches = {self.minibatches}: there are only {self.prompts} prompts, one group each")
        return self


class RlOptimConfig(OptimConfig):
    """AdamW and its learning rate, which does not change unless it is told to."""

    lr: float = Field(default=1e-6, gt=0, allow_inf_nan=False)
    schedule: Literal["cosine", "linear", "constant"] = "constant"
    warmup: float = Field(default=0.0, ge=0, lt=1)
    """Share of all optimizer steps."""


class RlValidationConfig(ValidationConfig):
    """Questions that are played while training; the weights with the highest success are the ones to keep.

    `agent` is that of the rollouts unless it is given.
    """

    every: int = Field(default=10, ge=1)
    """Steps; the last step is always validated."""
    first: bool = True
    """Also before the first step."""

    @model_validator(mode="after")
    def _measures_something(self) -> Self:
        if self.data is None or self.sources:
            raise ValueError("validation.data names the manifest that is played; validation.sources is for fine-tuning")
        return self


class RlSaveConfig(SaveConfig):
    """Checkpoints, recorded episodes and the export."""

    every: int = Field(default=10, ge=1)
    """Steps."""
    rollouts: int | None = Field(default=None, ge=1)
    """Steps whose recorded episodes stay; None keeps all of them."""


class DebugConfig(Record):
    """One half of a run at a time."""

    rollout_only: bool = False
    """Play, score and record; the weights stay as they are."""
    replay: str | None = None
    """A folder of recorded steps (RUN/rollouts): train on them, play nothing."""


class RlConfig(Record):
    """One run of reinforcement learning."""

    verb: Literal["rl"] = "rl"
    preset: str | None = None
    run: str | None = None
    """Run folder; None is runs/rl-<time>."""
    seed: int = 0
    """Of the questions' order, of sampling, of adapters' first weights and of dropout."""
    steps: int = Field(default=100, ge=1)
    """Rollout batches."""
    model: ModelConfig
    data: DataConfig
    rollout: RolloutConfig = RolloutConfig()
    engine: EngineConfig = EngineConfig()
    rewards: RewardConfig = RewardConfig()
    masking: MaskingConfig = MaskingConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    batch: RlBatchConfig = RlBatchConfig()
    optim: RlOptimConfig = RlOptimConfig()
    validation: RlValidationConfig | None = None
    save: RlSaveConfig = RlSaveConfig()
    watch: WatchConfig = WatchConfig()
    debug: DebugConfig = DebugConfig()

    @model_validator(mode="before")
    @classmethod
    def _starts_from_its_preset(cls, table: Any) -> Any:
        return _validates_as_it_trains(over_preset(PRESETS, table)) if isinstance(table, dict) else table

    @model_validator(mode="after")
    def _trains_something(self) -> Self:
        refuse_all_frozen(self.model)
        if self.model.mixed_precision == "fp16":
            raise ValueError('model.mixed_precision = "fp16" needs loss scaling, which skipped steps break; use "bf16"')
        return self

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.debug.rollout_only and self.debug.replay:
            raise ValueError("debug.rollout_only and debug.replay exclude each other")
        if self.algorithm.tis_cap is not None and self.batch.old_logprobs == "sampler":
            raise ValueError('algorithm.tis_cap weighs trainer against sampler: set batch.old_logprobs = "trainer"')
        if self.rollout.agent.sampling.temperature == 0:
            raise ValueError("rollout.agent.sampling.temperature = 0 plays one episode again and again; set it to 1")
        return self

    @model_validator(mode="after")
    def _can_teach(self) -> Self:
        alone = self.batch.samples == 1 and not (self.debug.rollout_only or self.debug.replay)
        if alone and self.algorithm.advantage in GROUPED:
            raise ValueError(
                f"batch.samples = 1: {self.algorithm.advantage} compares the episodes of a question; "
                'set it to 2 or more, or algorithm.advantage = "reinforce_pp"'
            )
        return self


def _validates_as_it_trains(table: dict[str, Any]) -> dict[str, Any]:
    """Validation plays with the agent of the rollouts unless it names another."""
    rollout, validation = table.get("rollout"), table.get("validation")
    if not isinstance(rollout, dict) or not isinstance(validation, dict) or "agent" not in rollout:
        return table
    return table | {"validation": {"agent": rollout["agent"]} | validation}
