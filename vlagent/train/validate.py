"""Validation: the loss on rows that are not trained on, and success in free running through the real loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import Watcher, evaluate
from vlagent.chat.base import ChatModel
from vlagent.data.manifest import load_samples
from vlagent.model.engine import EngineOptions
from vlagent.model.load import Policy
from vlagent.model.local_chat import local_chat
from vlagent.search.base import SearchServices
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.train.config import ValidationConfig
from vlagent.types import Sample


class Exam:
    """The questions of a run's validation, opened once."""

    def __init__(self, config: ValidationConfig, seed: int) -> None:
        assert config.data is not None
        self.config = config
        self.samples = load_samples(config.data, seed=seed, limit=config.limit)
        self._search = open_search(Path(config.search)) if config.search else SearchServices()
        agent = config.agent
        needed = {"agent": agent.tools, "rag": ("text_search", "image_search"), "direct": ()}[agent.workflow]
        self._tools = make_tools(needed, search=self._search)

    def sit(self, policy: Policy, folder: Path, rank: int, world: int, stop: Any) -> tuple[int, int]:
        """(right, scored) of this process's share of the questions; episodes and page data stay in the folder."""
        chat = local_chat(policy, EngineOptions(max_batch=self.config.concurrency))
        try:
            with evaluating(policy.model):
                return asyncio.run(self.play(chat, self.samples[rank::world], folder, stop))
        finally:
            chat.close()

    async def play(self, chat: ChatModel, samples: Sequence[Sample], folder: Path, stop: Any) -> tuple[int, int]:
        """(right, scored) of some of the questions, played by this model."""
        if not samples:
            return 0, 0
        agent_config = self.config.agent
        agent = Agent(chat, agent_config, self._tools, self._search, folder=folder / "images")
        config = EvalConfig(
            target=str(self.config.data),
            model=chat.name,
            agent=agent_config,
            search=self.config.search,
            concurrency=self.config.concurrency,
        )
        watcher = Watcher()
        watcher.on_row = lambda _: watcher.stop.set() if stop() else None
        result = await evaluate(config, agent, samples, folder, watcher=watcher)
        return result.summary.counts.right, result.summary.counts.scored


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Dropout off and no gradients inside."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)
