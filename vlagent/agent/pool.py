"""Hundreds of episodes at once, with bounds on the model and on each tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vlagent.agent.episode import Agent, Gates
from vlagent.agent.events import Ended, Event
from vlagent.agent.loop import run_agent
from vlagent.errors import UserError
from vlagent.types import Sample, Trajectory

Job = tuple[Sample, int]
"""A sample and the number of its rollout."""


async def run_pool(
    agent: Agent,
    jobs: Iterable[Job],
    *,
    concurrency: int = 64,
    model_limit: int | None = None,
    tool_limits: Mapping[str, int] | None = None,
    stop: asyncio.Event | None = None,
) -> AsyncGenerator[tuple[Sample, Trajectory], None]:
    """Play every job and yield each trajectory as it ends, in the order of their ends.

    At most `concurrency` jobs are drawn and not yet yielded, so a slow consumer holds back the source of jobs.
    `model_limit` and `tool_limits` bound the calls at one time. A bug in one episode is raised at once and cancels the
    rest. When `stop` is set no further job is drawn, the running episodes are cancelled and their partial
    trajectories are yielded. Leaving the loop early: use `contextlib.aclosing`; every episode then still sends its
    `Ended` event.
    """
    gated = replace(agent, gates=_gates(concurrency, model_limit, tool_limits or {}))
    pool = _Pool(gated, iter(jobs), concurrency, stop or asyncio.Event())
    watcher = asyncio.create_task(pool.cancel_when_stopped()) if stop is not None else None
    try:
        pool.fill()
        while pool.running or not pool.finished.empty():
            task = await pool.finished.get()
            if not task.cancelled():
                yield task.result()
            pool.fill()
    finally:
        if watcher is not None:
            watcher.cancel()
        await pool.close()


@dataclass
class _Pool:
    agent: Agent
    jobs: Iterator[Job]
    concurrency: int
    stop: asyncio.Event
    running: set[asyncio.Task[tuple[Sample, Trajectory]]] = field(default_factory=set)
    finished: asyncio.Queue[asyncio.Task[tuple[Sample, Trajectory]]] = field(default_factory=asyncio.Queue)
    drained: bool = False

    def fill(self) -> None:
        """Start jobs up to the bound."""
        while not (self.drained or self.stop.is_set()) and len(self.running) + self.finished.qsize() < self.concurrency:
            job = next(self.jobs, None)
            if job is None:
                self.drained = True
                return
            task = asyncio.create_task(_play(self.agent, *job))
            self.running.add(task)
            task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[tuple[Sample, Trajectory]]) -> None:
        self.running.discard(task)
        self.finished.put_nowait(task)

    async def cancel_when_stopped(self) -> None:
        await self.stop.wait()
        self._cancel()

    def _cancel(self) -> None:
        for task in self.running:
            task.cancel()

    async def close(self) -> None:
        """Leave no task behind; a bug that comes up only now is reported, since nobody awaits it."""
        left = list(self.running)
        self._cancel()
        for outcome in await asyncio.gather(*left, return_exceptions=True):
            if isinstance(outcome, Exception):
                context = {"message": "an episode failed while its pool was closed", "exception": outcome}
                asyncio.get_running_loop().call_exception_handler(context)


async def _play(agent: Agent, sample: Sample, rollout: int) -> tuple[Sample, Trajectory]:
    """One episode; a cancelled one gives its partial trajectory."""
    ended: list[Trajectory] = []

    def watch(event: Event) -> None:
        if isinstance(event, Ended):
            ended.append(event.trajectory)
        if agent.watch is not None:
            agent.watch(event)

    try:
        return sample, await run_agent(replace(agent, watch=watch), sample, rollout)
    except asyncio.CancelledError:
        if not ended:
            raise
        return sample, ended[0]


def _gates(concurrency: int, model_limit: int | None, tool_limits: Mapping[str, int]) -> Gates:
    bounds = {"concurrency": concurrency, "model_limit": model_limit}
    for name, value in {**bounds, **{f"limit of {tool}": limit for tool, limit in tool_limits.items()}}.items():
        if value is not None and value < 1:
            raise UserError(f"{name} = {value}: it must be at least 1")
    return Gates(
        model=asyncio.Semaphore(model_limit) if model_limit is not None else None,
        tools={name: asyncio.Semaphore(limit) for name, limit in tool_limits.items()},
    )
