"""A small toy world on disk and an agent that plays in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent, run_agent
from vlagent.chat.base import ChatModel
from vlagent.rewards.match import match
from vlagent.toy.controls import Setup
from vlagent.toy.world import WorldConfig
from vlagent.types import Sample, Trajectory

CONFIG = WorldConfig(seed=11, per_kind={"test": 4})


@dataclass(frozen=True)
class World:
    folder: Path
    samples: list[Sample]
    setup: Setup

    async def play(self, model: ChatModel, setup: Setup | None = None, dialect: str = "default") -> list[Trajectory]:
        used = setup or self.setup
        agent = Agent(model, AgentConfig(dialect=dialect), used.tools, used.search)
        return [await run_agent(agent, sample) for sample in self.samples]

    async def right(self, model: ChatModel, setup: Setup | None = None, dialect: str = "default") -> dict[str, int]:
        """Kind -> right answers, of four."""
        counts = dict.fromkeys([sample.extra["kind"] for sample in self.samples], 0)
        for sample, played in zip(self.samples, await self.play(model, setup, dialect), strict=True):
            counts[sample.extra["kind"]] += bool(played.answer) and match(played.answer or "", sample.answers).matched
        return counts
