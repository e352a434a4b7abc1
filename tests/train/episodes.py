"""Small real episodes: noise pictures, a scripted model, the real loop, a run folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.agent.parts import answer, call
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent, run_agent
from vlagent.agent.store import write_trajectory
from vlagent.bench.evaluate import row_of
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.files import append_jsonl, write_atomic, write_json
from vlagent.render.sizing import LIMITS
from vlagent.search.base import SearchServices
from vlagent.tools.registry import make_tools
from vlagent.types import ImageRef, Sample, Trajectory, Usage

AGENT = AgentConfig(pixels=LIMITS["tiny"], tools=("image_crop",), max_turns=4)
CROP = call("image_crop", bbox=[0, 0, 500, 500], image_index=0)
SYSTEM = "Look. <tools>image_crop</tools>"
Script = Callable[[Sample, int], str | ChatReply]
"""(sample, turn) -> what the model writes."""


def make_samples(folder: Path, count: int) -> list[Sample]:
    """Questions about one noise picture each; sample n's answer is the word for n."""
    folder.mkdir(parents=True, exist_ok=True)
    random, samples = np.random.default_rng(5), []
    for i in range(count):
        path = folder / f"{i}.png"
        width, height = (96, 96) if i % 2 else (160, 80)
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
        ref = ImageRef(path=str(path), width=width, height=height)
        asked = "What?" * (1 + i % 3)
        samples.append(
            Sample(id=f"s{i}", source="drawn", question=asked, images=(ref,), answers=(f"a{i}",), system_prompt=SYSTEM)
        )
    return samples


class Player:
    """A model that plays a script and remembers what it was asked."""

    name = "player"

    def __init__(self, samples: Sequence[Sample], script: Script, special_tokens: tuple[str, ...] = ()) -> None:
        self._samples = {sample.id: sample for sample in samples}
        self._script = script
        self.special_tokens = special_tokens
        self.requests: dict[str, list[ChatRequest]] = {}

    async def complete(self, request: ChatRequest) -> ChatReply:
        sample_id = str(request.key[1])
        self.requests.setdefault(sample_id, []).append(request)
        said = self._script(self._samples[sample_id], int(request.key[3]))
        return ChatReply(said, usage=Usage(calls=1)) if isinstance(said, str) else said


def crop_then_answer(sample: Sample, turn: int) -> str:
    """Zooms `number of the sample mod 3` times, then answers rightly."""
    number = int(sample.id[1:])
    return CROP if turn < number % 3 else answer(sample.answers[0])


def play(
    samples: Sequence[Sample],
    model: Any,
    config: AgentConfig = AGENT,
    search: SearchServices | None = None,
    hook: Any = None,
    folder: Path | None = None,
) -> list[Trajectory]:
    tools = make_tools([*config.tools, "text_search"]) if config.workflow == "rag" else make_tools(config.tools)
    agent = Agent(model, config, tools, search or SearchServices(), hook=hook, folder=folder)

    async def every() -> list[Trajectory]:
        return [await run_agent(agent, sample) for sample in samples]

    return asyncio.run(every())


def write_run(run: Path, samples: Sequence[Sample], played: Sequence[Trajectory], config: AgentConfig = AGENT) -> Path:
    """A run folder as an evaluation leaves it."""
    write_json(run / "config.json", {"verb": "eval", "agent": config.model_dump(mode="json")})
    write_atomic(run / "samples.jsonl", "".join(sample.model_dump_json() + "\n" for sample in samples))
    for sample, trajectory in zip(samples, played, strict=True):
        write_trajectory(run, trajectory)
        append_jsonl(run / "rows.jsonl", asyncio.run(row_of(sample, trajectory, None)))
    return run
