"""One step's episodes: every prompt G times, each a task of its own, each scored as it ends.

Randomness is keyed by (run seed and step, sample id, rollout, turn), so a step that is played again is the same step,
whatever else ran on the machine. G = episodes of a prompt (arXiv 2512.24330, section 3.3).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, PositiveInt

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.agent.pool import run_pool
from vlagent.bench.evaluate import scored_row
from vlagent.chat.base import ChatModel, Sampling
from vlagent.errors import UserError, VlagentError
from vlagent.randomness import seed_of
from vlagent.rewards.judge import Judge
from vlagent.search.base import SearchServices
from vlagent.search.open import open_search
from vlagent.tools.base import RetryPolicy
from vlagent.tools.registry import make_tools
from vlagent.train.rl.rewards import RewardConfig, TooManyFaults, is_fault, plugin, score, trained_reward
from vlagent.types import EvalRow, Group, Record, Sample, Trajectory

Key = tuple[str, int]
"""(sample id, rollout)."""
STOP_EVERY_S = 0.1
"""How often a caller's wish to stop is looked at."""


class RolloutConfig(Record):
    """How the episodes of training run."""

    agent: AgentConfig = AgentConfig(sampling=Sampling(temperature=1.0))
    """Its `seed` is the run's, step by step."""
    search: str | None = None
    """Index folder for the search tools."""
    concurrency: int = Field(default=256, ge=1)
    """Episodes at one time."""
    model_limit: int | None = Field(default=None, ge=1)
    """Calls of the policy at one time; None leaves that to the engine."""
    tool_limits: dict[str, PositiveInt] = Field(default_factory=dict)
    """Calls of each tool at one time."""
    tool_attempts: int = Field(default=3, ge=1)
    tool_timeout_s: float = Field(default=60.0, gt=0)
    """Of one attempt."""


class Stopped(VlagentError):
    """The caller wanted the step to end; nothing of it is kept, and it is the same when it is played again."""


@dataclass(frozen=True)
class RolloutTimes:
    """Seconds of one step; all but `wall_s` are summed over episodes that overlap."""

    wall_s: float = 0.0
    model_s: float = 0.0
    tools_s: float = 0.0
    reward_s: float = 0.0


@dataclass
class Rollouts:
    """Plays and scores the episodes of a run."""

    config: RolloutConfig
    rewards: RewardConfig
    search: SearchServices
    judge: Judge | None
    folder: Path
    """The run folder; tools may leave pictures in its images/."""
    on_row: Callable[[EvalRow], None] | None = None
    """Told of every episode as it has been scored."""
    stop: Callable[[], bool] | None = None
    """Asked now and then; True ends the step with `Stopped`."""
    times: RolloutTimes = field(default_factory=RolloutTimes)
    """Of the last step."""

    def __post_init__(self) -> None:
        agent = self.config.agent
        needed = {"agent": agent.tools, "rag": ("text_search", "image_search"), "direct": ()}[agent.workflow]
        self._tools = make_tools(needed, search=self.search)
        for name in self.config.tool_limits:
            if name not in self._tools:
                raise UserError(
                    f"rollout.tool_limits: {name!r} is no tool of this run; it has {', '.join(needed) or 'none'}"
                )
        for name in self.rewards.plugins:
            plugin(name)

    async def collect(self, step: int, chat: ChatModel, jobs: Sequence[Sample], samples: int, seed: int) -> list[Group]:
        """`samples` episodes of each job, in the order of the jobs.

        A prompt that comes twice gets further rollouts, not the same again. Raises `TooManyFaults` once services have
        spoilt more episodes than the configuration allows, `Stopped` if the caller wants an end.
        """
        started = time.monotonic()
        plan = _plan(jobs, samples)
        course = _Course(self, len(jobs) * samples)
        agent = self._agent(chat, step, seed)
        done = await course.play(agent, (job for group in plan for job in group))
        groups = [
            _group(sample, [done[sample.id, number] for _, number in group])
            for sample, group in zip(jobs, plan, strict=True)
        ]
        self.times = RolloutTimes(
            wall_s=time.monotonic() - started,
            model_s=sum(played.timings.model_s for played, _, _ in done.values()),
            tools_s=sum(played.timings.tools_s for played, _, _ in done.values()),
            reward_s=sum(spent for _, _, spent in done.values()),
        )
        return groups

    def _agent(self, chat: ChatModel, step: int, seed: int) -> Agent:
        config = self.config.agent.model_copy(update={"seed": seed_of("rollout", seed, step)})
        retry = RetryPolicy(attempts=self.config.tool_attempts, timeout_s=self.config.tool_timeout_s)
        return Agent(chat, config, self._tools, self.search, folder=self.folder / "images", retry=retry)


def open_services(config: RolloutConfig) -> SearchServices:
    """What the tools of a run look things up with."""
    if config.search is None:
        return SearchServices()
    return open_search(Path(config.search), top_k=config.agent.top_k)


Played = tuple[Trajectory, EvalRow, float]
"""An episode, its score, and the seconds that scoring took."""


@dataclass
class _Course:
    """One step on its way."""

    rollouts: Rollouts
    planned: int
    done: dict[Key, Played] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    """Spoilt episodes by what went wrong."""
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: bool = False

    def __post_init__(self) -> None:
        judge = self.rollouts.rewards.judge
        self.slots = asyncio.Semaphore(judge.calls if judge else 32)

    async def play(self, agent: Agent, jobs: Iterable[tuple[Sample, int]]) -> dict[Key, Played]:
        config = self.rollouts.config
        pool = run_pool(
            agent,
            jobs,
            concurrency=config.concurrency,
            model_limit=config.model_limit,
            tool_limits=config.tool_limits,
            stop=self.ending,
        )
        scoring: set[asyncio.Task[None]] = set()
        try:
            async with self._listening(), aclosing(pool) as ended:
                async for sample, trajectory in ended:
                    scoring.add(asyncio.create_task(self._score(sample, trajectory)))
            await asyncio.gather(*scoring)
        finally:
            for task in scoring:
                task.cancel()
        self._check()
        return self.done

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """Ends the pool when the caller wants it, also while every episode waits."""
        if self.rollouts.stop is None:
            yield
            return
        task = asyncio.create_task(self._listen(self.rollouts.stop))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _listen(self, stop: Callable[[], bool]) -> None:
        while not stop():  # noqa: ASYNC110 - a signal handler sets it, from outside of this loop
            await asyncio.sleep(STOP_EVERY_S)
        self.stopped = True
        self.ending.set()

    async def _score(self, sample: Sample, trajectory: Trajectory) -> None:
        if self.ending.is_set():
            return
        async with self.slots:
            started = time.monotonic()
            scored = await score(sample, trajectory, self.rollouts.judge, self.rollouts.rewards)
        row = scored_row(sample, trajectory, scored)
        self.done[sample.id, trajectory.rollout] = (trajectory, row, time.monotonic() - started)
        if is_fault(scored, trajectory.stop):
            self.faults[scored.why if scored.reward is None else "a tool or a search failed"] += 1
            if self._too_many():
                self.ending.set()
        if self.rollouts.on_row:
            self.rollouts.on_row(row)

    def _too_many(self) -> bool:
        return self.faults.total() > self.rollouts.rewards.max_fault_share * self.planned

    def _check(self) -> None:
        if self._too_many():
            often = self.faults.most_common(1)[0][0]
            count = f"{self.faults.total()} of {self.planned} episodes of a step"
            raise TooManyFaults("services", f"spoilt {count}, most often: {often}")
        if self.stopped:
            raise Stopped("the step was stopped")


def _plan(jobs: Sequence[Sample], samples: int) -> list[list[tuple[Sample, int]]]:
    """(sample, rollout) of each group."""
    seen: Counter[str] = Counter()
    plan = []
    for sample in jobs:
        first = seen[sample.id]
        plan.append([(sample, first + number) for number in range(samples)])
        seen[sample.id] += samples
    return plan


def _group(sample: Sample, played: Sequence[Played]) -> Group:
    rows = [row for _, row, _ in played]
    return Group(sample, [trajectory for trajectory, _, _ in played], [trained_reward(row) for row in rows], rows)
