"""Our loop, tools and rewards as a veRL agent loop (`rollout.agent.default_agent_loop = vlagent`).

The ids that veRL trains on are the ids that were sampled: our renderer splices them in, veRL's chat template plays no
part. Shape letter: L = tokens of a sequence, P = tokens before the first that the policy wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from vlagent import images as pictures
from vlagent.agent.loop import run_agent
from vlagent.bench.evaluate import scored_row
from vlagent.chat.base import ImagePart
from vlagent.errors import UserError
from vlagent.integrations.verl.config import Workplace, open_workplace
from vlagent.integrations.verl.dataset import sample_of
from vlagent.integrations.verl.engine import ServerEngine
from vlagent.model.chatml import Renderer
from vlagent.model.load import Processor, wrap_processor
from vlagent.model.local_chat import LocalChat
from vlagent.render.sizing import PixelLimits
from vlagent.train.rl.groups import group_rows
from vlagent.train.rl.rewards import is_fault, score, trained_reward
from vlagent.types import EvalRow, Group, Sample, TrainRow, Trajectory


class VlagentLoop(AgentLoopBase):  # type: ignore[misc]
    """One episode. `vlagent_config` is the path of a TOML file (`config.LoopConfig`).

    It is registered by `rollout.agent.agent_loop_config_path`, which can hand it that path. veRL's decorator cannot,
    and would replace the entry of that file as soon as this module is imported.
    """

    def __init__(self, *args: Any, vlagent_config: str, tools: Any = None, **kwargs: Any) -> None:  # noqa: ARG002
        super().__init__(*args, **kwargs)
        if self.processor is None:
            raise UserError("the model has no processor for pictures, so it is not one of Qwen-VL's kind")
        self.workplace = open_workplace(vlagent_config)
        wrapped = _wrapped(self.processor)
        _check_pixels(self.workplace.config.rollout.agent.pixels, wrapped.limits)
        self.renderer = wrapped.renderer

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Play and score one episode of a row of `dataset.ManifestDataset`.

        An episode that must not train comes back with a mask of zeros: the loss and `bn_gspo` leave it out. Raises
        `TooManyFaults` where services fail too often.
        """
        sample = sample_of(row)
        engine = ServerEngine(self.server_manager, sampling_params, self.renderer.vocabulary)
        chat = LocalChat("policy", self.renderer, engine)
        trajectory = await run_agent(self.workplace.agent(chat), sample, int(row.get("session_id", 0)))
        scored = await score(sample, trajectory, self.workplace.judge, self.workplace.config.rewards)
        why = scored.why if scored.reward is None else "a tool or a search failed"
        self.workplace.count(is_fault(scored, trajectory.stop), why)
        return await self._output(sample, trajectory, scored_row(sample, trajectory, scored))

    async def _output(self, sample: Sample, trajectory: Trajectory, scored: EvalRow) -> AgentLoopOutput:
        row, why = _train_row(sample, trajectory, scored, self.renderer, self.workplace)
        limits = (int(self.rollout_config.prompt_length), int(self.rollout_config.response_length))
        if row is not None and not _fits(row, limits):
            row, why = None, "longer than prompt_length and response_length"
        common = {
            "num_turns": len(trajectory.turns),
            "metrics": _metrics(trajectory),
            "extra_fields": {"reward_extra_info": _figures(trajectory, scored, trained=row is not None), "why": why},
        }
        if row is None:
            return AgentLoopOutput(**self._nothing(), reward_score=0.0, **common)
        assert scored.reward is not None
        first = int(np.flatnonzero(row.mask)[0])
        assert row.logprobs is not None
        return AgentLoopOutput(
            prompt_ids=row.ids[:first].tolist(),
            response_ids=row.ids[first:].tolist(),
            response_mask=row.mask[first:].astype(int).tolist(),
            response_logprobs=row.logprobs[first:].tolist(),
            multi_modal_data={"images": await _load(row)} if row.images else {},
            reward_score=scored.reward.total,
            **common,
        )

    def _nothing(self) -> dict[str, Any]:
        """A sequence of two tokens, for veRL wants some, of which none trains."""
        end = self.renderer.vocabulary.eos[0]
        return {
            "prompt_ids": [end],
            "response_ids": [end],
            "response_mask": [0],
            "response_logprobs": [0.0],
            "multi_modal_data": {},
        }


@lru_cache(maxsize=4)
def _wrapped(processor: Any) -> Processor:
    return wrap_processor(processor, eos=[processor.tokenizer.eos_token_id])


def _check_pixels(ours: PixelLimits, models: PixelLimits) -> None:
    """veRL and its servers size every picture once more by the model's limits: ours must lie within them.

    Otherwise a picture would have other features than its placeholders in the ids.
    """
    inside = models.min_pixels <= ours.min_pixels and ours.max_pixels <= models.max_pixels
    if ours.factor != models.factor or not inside:
        wanted = f"factor {models.factor}, min_pixels >= {models.min_pixels}, max_pixels <= {models.max_pixels}"
        raise UserError(f"rollout.agent.pixels = {ours.model_dump()}: the model's processor needs {wanted}")


def _train_row(
    sample: Sample, trajectory: Trajectory, scored: EvalRow, renderer: Renderer, workplace: Workplace
) -> tuple[TrainRow | None, str]:
    """The row of an episode, or None and why it has none."""
    config = workplace.config
    group = Group(sample, [trajectory], [trained_reward(scored)], [scored])
    made = group_rows([group], renderer, config.masking, config.rollout.agent)
    return (made.rows[0], "") if made.rows else (None, next(iter(made.left_out)))


def _fits(row: TrainRow, limits: tuple[int, int]) -> bool:
    first = int(np.flatnonzero(row.mask)[0])
    return first <= limits[0] and len(row.ids) - first <= limits[1]


async def _load(row: TrainRow) -> list[Any]:
    """The pictures of a row at the sizes at which the model saw them."""
    parts = [ImagePart(ref, view) for ref, view in zip(row.images, row.views, strict=True)]
    return list(await asyncio.gather(*(asyncio.to_thread(pictures.load, part.ref, part.view) for part in parts)))


def _figures(trajectory: Trajectory, scored: EvalRow, *, trained: bool) -> dict[str, float]:
    """What veRL averages; the same names for every episode. `acc / scored` is the accuracy without world faults."""
    reward = trained_reward(scored)
    parts: Mapping[str, float] = reward.parts if reward else {}
    return {
        "acc": float(parts.get("accuracy", 0.0)),
        "format": float(parts.get("format", 0.0)),
        "scored": float(reward is not None),
        "trained": float(trained),
        "turns": float(len(trajectory.turns)),
        "calls": float(sum(turn.call is not None for turn in trajectory.turns)),
    }


def _metrics(trajectory: Trajectory) -> AgentLoopMetrics:
    times = trajectory.timings
    return AgentLoopMetrics(generate_sequences=times.model_s, tool_calls=times.tools_s)
