"""The folder of a run of reinforcement learning.

config.json, metrics.jsonl, alarms.jsonl, rollouts/, checkpoints/, validation/, model/, last/, summary.json.
"""

from __future__ import annotations

from vlagent.types import Record

FREE = frozenset(
    {
        *("run", "save.every", "save.keep", "save.rollouts", "model.device", "model.threads", "model.export_dtype"),
        *("model.gradient_checkpointing", "batch.micro_rows", "batch.micro_tokens", "validation.concurrency"),
        *("rollout.concurrency", "rollout.model_limit", "rollout.tool_attempts", "rollout.tool_timeout_s"),
        *(
            "watch.",
            "rollout.tool_limits.",
            "rewards.max_fault_share",
            "rewards.judge.base_url",
            "rewards.judge.attempts",
            "rewards.judge.calls",
        ),
    }
)
"""May change between a run and its resumption: where and how fast, not what is computed."""


class RlSummary(Record):
    """How a run ended."""

    verb: str = "rl"
    run: str
    ended: str
    """`complete` or `stopped`."""
    steps: int
    total_steps: int
    episodes: int
    """Played or replayed."""
    skipped: int
    """Optimizer steps for which no group taught anything."""
    reward: float | None = None
    """Mean of the last step."""
    success: float | None = None
    """Share of the validation questions answered rightly, last measured."""
    best_success: float | None = None
    best_step: int | None = None
    model: str | None = None
    """The exported folder: the best weights in validation, without validation the last; `last/` beside it if others."""
