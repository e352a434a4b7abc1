"""What the pool costs: 256 episodes with an instant model and tools of half a second, against the longest tool chain.

    python benchmarks/pool.py

`ratio` is the wall time over the time that the longest chain of tool calls needs by itself; `notice_ms` is the time
from the end of a tool until the loop has seen it, of tools that end one by one while the others run; `herd_ms` is the
same for 256 tools that end at the very same moment (worst of them).
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, ClassVar

from vlagent.agent.config import AgentConfig
from vlagent.agent.events import Event, Observed
from vlagent.agent.loop import Agent
from vlagent.agent.pool import run_pool
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.search.base import SearchServices
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.types import Sample, StopReason, Usage

EPISODES = 256
TOOL_S = 0.5
LONGEST = 6


class InstantModel:
    """Calls the tool as often as the sample's number says, then answers."""

    name = "instant"

    async def complete(self, request: ChatRequest) -> ChatReply:
        number, turn = int(str(request.key[1])), int(request.key[-1])
        call = json.dumps({"name": "wait", "arguments": {"turn": turn}})
        action = f"<tool_call>{call}</tool_call>" if turn < chain(number) else "<answer>done</answer>"
        return ChatReply(f"<think>turn {turn}</think>{action}", usage=Usage(prompt_tokens=100, completion_tokens=20))


def chain(number: int) -> int:
    """Tool calls of one episode."""
    return 1 + number % LONGEST


class WaitArguments(Arguments):
    """Which turn this is."""

    turn: int


class Wait:
    """A tool that takes half a second; with `spread` the episodes are out of step with one another."""

    name: ClassVar[str] = "wait"
    description: ClassVar[str] = "Waits."
    arguments: ClassVar[type[Arguments]] = WaitArguments

    def __init__(self, spread: bool) -> None:
        self.spread = spread
        self.due: dict[tuple[str, int], float] = {}

    async def run(self, arguments: WaitArguments, context: ToolContext) -> ToolOutput:
        number = int(context.sample.id)
        late = TOOL_S * number / EPISODES if self.spread and arguments.turn == 0 else 0.0
        loop = asyncio.get_running_loop()
        due = loop.time() + TOOL_S + late
        self.due[context.sample.id, arguments.turn] = due
        done = loop.create_future()
        loop.call_at(due, done.set_result, None)
        await done
        return ToolOutput("A result of some length. " * 40)


def play(spread: bool) -> tuple[float, list[float]]:
    """Wall seconds of the pool, and how long after its due time each tool's end was seen (seconds, sorted)."""
    tool = Wait(spread)
    delays: list[float] = []

    def watch(event: Event) -> None:
        if isinstance(event, Observed):
            delays.append(time.monotonic() - tool.due[event.sample_id, event.index])

    agent = Agent(InstantModel(), AgentConfig(tools=("wait",)), {"wait": tool}, SearchServices(), watch=watch)
    jobs = ((Sample(id=str(number), source="benchmark", question="How long?"), 0) for number in range(EPISODES))

    async def consume() -> float:
        started = time.monotonic()
        async for _, trajectory in run_pool(agent, jobs, concurrency=EPISODES):
            assert trajectory.stop is StopReason.ANSWERED, trajectory.stop_detail
        return time.monotonic() - started

    return asyncio.run(consume()), sorted(delays)


def measure() -> dict[str, Any]:
    """The numbers of the docstring above; times in seconds or, where the name says so, milliseconds."""
    play(spread=True)
    wall_s, herd = play(spread=False)
    _, notice = play(spread=True)
    longest_s = LONGEST * TOOL_S
    return {
        "episodes": EPISODES,
        "longest_chain_s": longest_s,
        "wall_s": round(wall_s, 3),
        "ratio": round(wall_s / longest_s, 3),
        "notice_ms_median": round(1000 * notice[len(notice) // 2], 2),
        "notice_ms_max": round(1000 * notice[-1], 2),
        "herd_ms_max": round(1000 * herd[-1], 2),
    }


def main() -> None:
    for name, value in measure().items():
        print(f"{name:18} {value}")


if __name__ == "__main__":
    main()
