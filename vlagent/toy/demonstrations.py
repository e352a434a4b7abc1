"""Demonstrations for cold-start fine-tuning: the oracle with deliberate, named flaws, played through the real loop.

A flaw is a habit that reinforcement learning should remove. Which episode has which flaw, and where, is drawn from the
key (seed, sample id, rollout), so a set of demonstrations is the same however it is played.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.agent.pool import Job, run_pool
from vlagent.agent.store import write_trajectory
from vlagent.bench.evaluate import row_of
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import UserError
from vlagent.files import append_jsonl, write_json, write_records
from vlagent.randomness import rng_of
from vlagent.render.dialects import get_dialect
from vlagent.search.base import SearchServices
from vlagent.tools.registry import make_tools
from vlagent.toy.gold import Gold, brand_of, gold_of, guess, names_in
from vlagent.toy.policies import Exchange, Move, exchanges_of, next_move
from vlagent.toy.questions import IMAGE_CALL
from vlagent.types import Call, EvalRow, Outcome, Record, Sample, Turn

Flaw = Literal["redundant_call", "stray_crop", "early_guess", "broken_call"]
FLAWS: dict[Flaw, str] = {
    "redundant_call": "makes a call that brings nothing new, then goes on rightly",
    "stray_crop": "zooms on a wrong place, then goes on rightly",
    "early_guess": "guesses before everything is looked up; nearly always wrong",
    "broken_call": "writes a call that is not valid JSON, then goes on rightly",
}
"""What each flaw does. At most one of them in an episode."""
DIRECT_ROLLOUT = 1_000
"""Rollout number of the direct-answer episodes."""
Progress = Callable[[int, int], None]


class DemoConfig(Record):
    """One set of demonstrations."""

    verb: Literal["demos"] = "demos"
    agent: AgentConfig = AgentConfig()
    flaws: dict[Flaw, float] = Field(default_factory=dict)
    """Flaw -> share of the episodes that have it; the rest is clean."""
    direct: float = Field(default=0.0, ge=0, le=1)
    """Further episodes of the workflow `direct`, as a share of the questions; they state the truth without looking."""
    rollouts: int = Field(default=1, ge=1, le=DIRECT_ROLLOUT)
    seed: int = 0
    concurrency: int = Field(default=64, ge=1)

    @model_validator(mode="after")
    def _shares_fit(self) -> DemoConfig:
        if any(share < 0 for share in self.flaws.values()) or sum(self.flaws.values()) > 1 + 1e-9:
            raise ValueError("the shares of the flaws must be at least 0 and at most 1 together")
        return self


@dataclass(frozen=True)
class Plan:
    """The flaw of one episode and the turn that it falls on."""

    flaw: Flaw | None = None
    turn: int = 0


class FlawedOracle:
    """A chat model that plays rows of a toy world as the oracle does, but for its plan."""

    name = "toy:demonstrator"

    def __init__(self, samples: Iterable[Sample], config: DemoConfig) -> None:
        rows = list(samples)
        self._golds = {sample.id: gold_of(sample) for sample in rows}
        self._calls = {sample.id: len(sample.extra["gold"]["steps"]) for sample in rows}
        self._names = names_in(rows)
        self._legible = {sample.id: self._few_names(sample) for sample in rows}
        self._config = config
        self._dialect = get_dialect(config.agent.dialect)

    def _few_names(self, sample: Sample) -> tuple[str, ...]:
        """What a sign is compared with. The true name and some others: enough to fail on a crop that misses it."""
        brand = brand_of(sample)
        others = rng_of("demo-names", sample.id).sample(self._names, 3)
        return tuple(dict.fromkeys([*([brand] if brand else []), *others]))

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The next move, written in the dialect."""
        _, sample_id, rollout, _ = request.key
        plan = self.plan(str(sample_id), int(rollout))
        turn = sum(message.role == "assistant" for message in request.messages)
        rng = rng_of("demo", self._config.seed, sample_id, rollout, turn)
        if int(rollout) >= DIRECT_ROLLOUT:
            move = Move("no tools, so say it", answer=self._golds[str(sample_id)].answer)
        else:
            move = self._move(self._golds[str(sample_id)], plan, turn, request, rng)
        message = self._dialect.assistant(Turn(text="", think=move.think, call=move.call, answer=move.answer))
        text = message.text
        if plan.flaw == "broken_call" and turn == plan.turn and move.call is not None:
            text = text.replace("}}", "}", 1)
        return ChatReply(text, "tool_calls" if message.calls else "stop", message.calls)

    def plan(self, sample_id: str, rollout: int) -> Plan:
        """What is wrong with an episode, if anything."""
        rng = rng_of("demo-plan", self._config.seed, sample_id, rollout)
        draw, calls = rng.random(), self._calls[sample_id]
        for flaw, share in self._config.flaws.items():
            if draw < share:
                return Plan(flaw, rng.randrange(max(1, calls)))
            draw -= share
        return Plan()

    def _move(self, gold: Gold, plan: Plan, turn: int, request: ChatRequest, rng: random.Random) -> Move:
        shown, names = exchanges_of(request.messages), self._legible[str(request.key[1])]
        if plan.flaw == "early_guess":
            if turn == plan.turn:
                return Move("guess", answer=guess(rng, gold, self._names))
            return next_move(gold, shown, names, rng)
        if plan.flaw is None:
            return next_move(gold, shown, names, rng)
        if turn > plan.turn:
            # What the flawed turn brought is not part of the oracle's course.
            del shown[plan.turn]
        if turn == plan.turn and plan.flaw == "stray_crop":
            return Move("zoom somewhere", Call(name="image_crop", arguments=_stray_box(rng, gold)))
        if turn == plan.turn and plan.flaw == "redundant_call":
            return _redundant(gold, shown[: max(0, turn - 1)], turn, names, rng)
        return next_move(gold, shown, names, rng)


def _redundant(gold: Gold, before: Sequence[Exchange], turn: int, names: tuple[str, ...], rng: random.Random) -> Move:
    """The last call again; before any call, the first one twice, or a search for a place that is not asked for."""
    if turn == 0 and not gold.needs_place:
        return Move("find the place", IMAGE_CALL)
    return next_move(gold, before, names, rng)


def _stray_box(rng: random.Random, gold: Gold) -> dict[str, object]:
    """A window that misses the sign."""
    while True:
        x, y = rng.randrange(0, 13) * 50.0, rng.randrange(0, 17) * 50.0
        box = [x, y, x + 400, y + 200]
        if gold.crop is None or box[2] <= gold.crop[0] or box[0] >= gold.crop[2] or abs(y - gold.crop[1]) >= 200:
            return {"bbox": box, "image_index": 0}


@dataclass
class Tally:
    """How a set came out."""

    episodes: Counter[str] = field(default_factory=Counter)
    """By flaw, `clean` or `direct`."""
    right: Counter[str] = field(default_factory=Counter)


async def make_demonstrations(
    config: DemoConfig,
    samples: Sequence[Sample],
    search: SearchServices,
    run: Path,
    progress: Progress | None = None,
) -> Tally:
    """Play every question into a run folder (config.json, samples.jsonl, trajectories.jsonl, rows.jsonl).

    Raises `UserError` where the folder is not empty or a sample is no row of a toy world.
    """
    if run.is_dir() and any(run.iterdir()):
        raise UserError(f"{run}: this folder is not empty; choose another one for the demonstrations")
    policy = FlawedOracle(samples, config)
    write_records(run / "samples.jsonl", samples)
    write_json(run / "config.json", config)
    tally = Tally()
    jobs = jobs_of(config, samples)
    total = sum(len(part) for part in jobs.values())
    for workflow, part in jobs.items():
        tools = make_tools(config.agent.tools if workflow == "agent" else (), search=search)
        settings = config.agent.model_copy(update={"workflow": workflow, "seed": config.seed})
        agent = Agent(policy, settings, tools, search, folder=run / "images")
        pool = run_pool(agent, part, concurrency=config.concurrency)
        async with aclosing(pool) as ended:
            async for sample, trajectory in ended:
                row = await row_of(sample, trajectory, None)
                write_trajectory(run, trajectory)
                _count(tally, policy, row)
                append_jsonl(run / "rows.jsonl", row)
                if progress:
                    progress(sum(tally.episodes.values()), total)
    write_json(run / "summary.json", {"episodes": dict(tally.episodes), "right": dict(tally.right)})
    return tally


def jobs_of(config: DemoConfig, samples: Sequence[Sample]) -> dict[Literal["agent", "direct"], list[Job]]:
    """Every episode of a set, by workflow."""
    drawn = rng_of("demo-direct", config.seed).sample(range(len(samples)), round(config.direct * len(samples)))
    return {
        "agent": [(sample, rollout) for sample in samples for rollout in range(config.rollouts)],
        "direct": [(samples[i], DIRECT_ROLLOUT) for i in sorted(drawn)],
    }


def _count(tally: Tally, policy: FlawedOracle, row: EvalRow) -> None:
    name = "direct" if row.rollout >= DIRECT_ROLLOUT else policy.plan(row.sample_id, row.rollout).flaw or "clean"
    tally.episodes[name] += 1
    tally.right[name] += row.outcome is Outcome.RIGHT


def demonstrate(
    config: DemoConfig, samples: Sequence[Sample], search: SearchServices, run: Path, progress: Progress | None = None
) -> Tally:
    """`make_demonstrations` for callers without an event loop."""
    return asyncio.run(make_demonstrations(config, samples, search, run, progress))
