"""A veRL reward manager that says where rewards come from, instead of guessing one from decoded text.

`reward.reward_manager.source=importlib`, `.module.path=pkg://vlagent.integrations.verl.rewards`,
`.name=TrajectoryReward`. The agent loop scores each episode on its turns, judge included, before veRL sees it.
"""

from __future__ import annotations

from typing import Any

from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase

from vlagent.errors import UserError


class TrajectoryReward(RewardManagerBase):  # type: ignore[misc]
    """Is asked only about episodes that came without a score, which is a mistake in the configuration."""

    def __init__(self, config: Any, tokenizer: Any, compute_score: Any = None, **_: Any) -> None:
        super().__init__(config, tokenizer, compute_score)

    async def run_single(self, data: Any) -> dict[str, Any]:  # noqa: ARG002
        raise UserError(
            "an episode has no score: it was not played by vlagent's agent loop; "
            "set actor_rollout_ref.rollout.agent.default_agent_loop=vlagent"
        )
