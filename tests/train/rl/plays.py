"""Rollouts without a neural network: an engine that samples the tokens of scripted lines, and services that break."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.agent.parts import answer, call
from tests.train.episodes import make_samples
from vlagent.agent.config import AgentConfig
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart, Sampling
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import ServiceError
from vlagent.model.local_chat import LocalChat
from vlagent.render.sizing import LIMITS
from vlagent.search.base import ImageQuery, SearchServices, TextQuery
from vlagent.train.rl.rewards import RewardConfig
from vlagent.train.rl.rollout import RolloutConfig, Rollouts
from vlagent.types import Group, Hit, Ids, Outcome, Sample, Source

TOOLS = ("image_crop", "text_search", "image_search")
AGENT = AgentConfig(
    pixels=LIMITS["tiny"],
    tools=TOOLS,
    max_turns=4,
    max_tokens_turn=120,
    max_tokens_total=4000,
    sampling=Sampling(temperature=1.0),
)
CROP = call("image_crop", bbox=[0, 0, 500, 500], image_index=0)
LOOK_UP = call("text_search", query="castore")
TWIN = call("image_search", image_index=0)
INVALID = "<think>so</think><tool_call>{broken</tool_call>"
END = answer("a0")
"""Right for the first question only."""
Lines = Callable[[str, int, int], str]
"""(sample id, rollout, turn) -> what the policy writes."""


class Saying:
    """A token engine that samples what it is told to, and breaks after `limit` replies."""

    def __init__(self, vocabulary: Any, lines: Lines, limit: int | None = None) -> None:
        self.vocabulary, self.lines, self.limit = vocabulary, lines, limit
        self.outputs: dict[tuple[str, int, int], TokenOutput] = {}

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput:
        await asyncio.sleep(0)
        if self.limit is not None and len(self.outputs) >= self.limit:
            raise ServiceError("model", "the engine is closed")
        _, name, rollout, turn = params.key
        ids = [*self.vocabulary.encode(self.lines(str(name), int(rollout), int(turn))), self.vocabulary.eos[0]]
        ids = ids[: params.max_tokens]
        logprobs = -np.arange(1, len(ids) + 1, dtype=np.float32) / 64
        out = TokenOutput(np.array(ids), logprobs, "stop" if ids[-1] == self.vocabulary.eos[0] else "length")
        self.outputs[str(name), int(rollout), int(turn)] = out
        return out


class Shelf:
    """A text search that finds one passage, until it breaks."""

    def __init__(self, works: int = 10**9, wait_s: float = 0.0) -> None:
        self.works, self.wait_s = works, wait_s
        self.busy = self.peak = 0

    async def search(self, query: TextQuery) -> list[Hit]:
        self.works -= 1
        if self.works < 0:
            raise ServiceError("search", "the index is gone")
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        await asyncio.sleep(self.wait_s)
        self.busy -= 1
        return [Hit(source=Source(title="castore", file="castore.txt"), text="Castore was founded in 2015.")]


class Twins:
    """An image search that finds one page, until it breaks."""

    def __init__(self, works: int = 10**9) -> None:
        self.works = works

    async def search(self, query: ImageQuery) -> list[Hit]:
        self.works -= 1
        if self.works < 0:
            raise ServiceError("image search", "the index is gone")
        return [Hit(source=Source(title="castore", url="https://a.example/1"))]


class Marker:
    """A judge's model that finds everything right, until it breaks."""

    name = "marker"

    def __init__(self, works: int = 10**9, says: str = "VERDICT: YES") -> None:
        self.works, self.says = works, says
        self.asked = self.busy = self.peak = 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.asked += 1
        if self.asked > self.works:
            raise ServiceError("judge", "it is down")
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        return ChatReply(self.says)


def questions(folder: Path, count: int = 2) -> list[Sample]:
    """Sample n's answer is `a<n>`."""
    return make_samples(folder / "pictures", count)


def always(*lines: str) -> Lines:
    """The same lines in every episode, the last for ever."""
    return lambda name, rollout, turn: lines[min(turn, len(lines) - 1)]


def rollouts(folder: Path, **more: Any) -> Rollouts:
    """With working services, the agent `AGENT` and no limit of faults, unless told otherwise."""
    rewards = RewardConfig(**{"max_fault_share": 1.0, **more.pop("rewards", {})})
    config = RolloutConfig(**{"agent": AGENT, "tool_attempts": 1, **more.pop("config", {})})
    search = SearchServices(text=more.pop("text", Shelf()), images=more.pop("images", Twins()))
    return Rollouts(config, rewards, search, more.pop("judge", None), folder, **more)


def chat(processor: Any, lines: Lines, limit: int | None = None) -> LocalChat:
    return LocalChat("saying", processor.renderer, Saying(processor.vocabulary, lines, limit))


def play(folder: Path, processor: Any, lines: Lines, samples: int = 2, **more: Any) -> list[Group]:
    """One step of two questions."""
    count, limit = more.pop("count", 2), more.pop("limit", None)
    made = rollouts(folder, **more)
    return asyncio.run(made.collect(0, chat(processor, lines, limit), questions(folder, count), samples, 7))


def outcomes(groups: Sequence[Group]) -> list[Outcome]:
    return [row.outcome for group in groups for row in group.rows]
