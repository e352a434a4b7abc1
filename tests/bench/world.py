"""A small evaluation without pictures: what is asked can be computed from the question, slowly and reproducibly."""

from __future__ import annotations

import asyncio
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import ServiceError, TransientError
from vlagent.randomness import rng_of
from vlagent.rewards.judge import Judge
from vlagent.search.base import SearchServices, TextQuery
from vlagent.tools.base import RetryPolicy
from vlagent.tools.registry import make_tools
from vlagent.types import Hit, Sample, Source, Usage


def questions(count: int, source: str = "sums") -> list[Sample]:
    """Sums with their answers, in two kinds."""
    return [
        Sample(
            id=f"{source}-{n:03}",
            source=source,
            question=f"What is {n} plus {n}?",
            answers=(str(2 * n),),
            extra={"kind": "even" if n % 2 == 0 else "odd", "difficulty": "hard" if n % 3 == 0 else "easy"},
        )
        for n in range(count)
    ]


@dataclass
class Adder:
    """Searches once if it may, then adds; wrong or out of form for a keyed part of the questions."""

    delay_s: float = 0.0
    down_for: set[str] = field(default_factory=set)
    """Sample ids for which the endpoint is down."""
    calls: list[tuple[object, ...]] = field(default_factory=list)
    name: str = "adder"

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls.append(request.key)
        await asyncio.sleep(self.delay_s)
        if str(request.key[1]) in self.down_for:
            raise TransientError("adder", "the endpoint is down")
        usage = Usage(prompt_tokens=100, completion_tokens=10, cost_usd=0.001, calls=1)
        if request.tools or "text_search" in request.messages[0].text:
            turn = sum(message.role == "assistant" for message in request.messages)
            if turn == 0:
                call = (
                    '<think>look</think><tool_call>{"name": "text_search", "arguments": {"query": "sum"}}</tool_call>'
                )
                return ChatReply(call, usage=usage)
        return ChatReply(self._answer(request), usage=usage)

    def _answer(self, request: ChatRequest) -> str:
        text = "".join(message.text for message in request.messages if message.role == "user")
        first, second = map(int, re.findall(r"What is (\d+) plus (\d+)", text)[0])
        draw = rng_of(*request.key, "adder").random()
        value = first + second + (1 if draw < 0.3 else 0)
        return f"<answer>{value}</answer>" if draw > 0.8 else f"<think>add</think><answer>{value}</answer>"


@dataclass
class OnePassage:
    """A text search that always finds the same passage, or is down."""

    down: bool = False

    async def search(self, query: TextQuery) -> list[Hit]:
        if self.down:
            raise ServiceError("search", "connection refused")
        return [Hit(source=Source(title="Sums", file="sums.txt"), text="Adding makes a sum.")]


def adding(model: Adder, *, workflow: str = "direct", search_down: bool = False, **changes: object) -> Agent:
    search = SearchServices(text=OnePassage(search_down))
    tools = make_tools(["text_search"]) if workflow == "agent" else {}
    config = AgentConfig.model_validate({"workflow": workflow, "tools": ("text_search",), **changes})
    return Agent(model, config, tools, search, retry=RetryPolicy(attempts=1))


def settings(agent: Agent, **changes: object) -> EvalConfig:
    return EvalConfig.model_validate({"target": "sums", "model": "adder", "agent": agent.config, **changes})


async def run_here(run: Path, samples: list[Sample], model: Adder | None = None, **changes: object):
    """One evaluation of the adder; `judge` and `watcher` are passed on, the rest is configuration."""
    parts = {name: changes.pop(name) for name in ("judge", "watcher") if name in changes}
    options = {name: changes.pop(name) for name in ("workflow", "search_down", "seed") if name in changes}
    agent = adding(model or Adder(), **options)
    return await evaluate(settings(agent, **changes), agent, samples, run, **parts)


class YesMan:
    """A judge that accepts everything, or is down."""

    name = "yes"

    def __init__(self, down: bool = False, says: str = "VERDICT: YES") -> None:
        self.down, self.says, self.calls = down, says, 0

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self.down:
            raise TransientError("judge", "the judge is down")
        return ChatReply(self.says)


def judging(down: bool = False, says: str = "VERDICT: YES") -> Judge:
    return Judge(YesMan(down, says), attempts=1)


def main() -> None:
    """`python -m tests.bench.world RUN COUNT DELAY_S`: the evaluation that tests kill."""
    run, count, delay_s = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    asyncio.run(run_here(run, questions(count), Adder(delay_s), k=2, concurrency=8, workflow="agent"))


if __name__ == "__main__":
    main()
