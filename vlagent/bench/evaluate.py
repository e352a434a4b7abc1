"""Run every question, score every episode, keep everything, and be killable at any moment."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from vlagent.agent.loop import Agent
from vlagent.agent.pool import run_pool
from vlagent.agent.store import write_trajectory
from vlagent.bench.config import EvalConfig
from vlagent.bench.pace import Pace, Paced
from vlagent.bench.progress import Course
from vlagent.bench.provenance import record_start
from vlagent.bench.runs import Book, open_book
from vlagent.bench.summary import Summary, summarise
from vlagent.errors import VlagentError
from vlagent.files import only_writer, write_json
from vlagent.rewards.opinions import Marker, read_opinions
from vlagent.rewards.rubric import Scored, outcome_of
from vlagent.types import EvalRow, Outcome, Sample, Trajectory

SLICES = ("kind", "difficulty", "category", "level", "language", "image_source")
"""Columns of a row, or of its `extra_info`, that results are told apart by."""
JUDGE_CALLS = 32
"""Judge calls at one time."""


Ended = Literal["complete", "stopped", "failures", "budget", "time"]


@dataclass
class Watcher:
    """How a caller follows an evaluation and ends it early."""

    on_row: Callable[[EvalRow], None] | None = None
    on_start: Callable[[int, int], None] | None = None
    """Told how many episodes are done already and how many there are in all."""
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set it, and the running episodes are cancelled; everything is kept."""


@dataclass(frozen=True)
class Evaluation:
    """The end of an evaluation, or of a part of it."""

    summary: Summary
    ended: Ended
    last_failure: str = ""


async def evaluate(
    config: EvalConfig,
    agent: Agent,
    samples: Sequence[Sample],
    run: Path,
    judge: Marker | None = None,
    watcher: Watcher | None = None,
) -> Evaluation:
    """Play and score what the run folder does not hold yet; writes rows.jsonl and summary.json.

    A folder that holds a part of the same evaluation is gone on with: finished episodes are never played again, failed
    and stopped ones are. Raises `UserError` where the folder belongs to another configuration or to other samples, is
    being written by another process or cannot be written, and `ServiceError` where the disk is full.
    """
    with only_writer(run), _first_of_group():
        return await _go_on(open_book(run, config, samples), config, agent, judge, watcher or Watcher())


@contextmanager
def _first_of_group() -> Iterator[None]:
    """Tasks fail as a group; what a caller may want to catch is raised by itself, a bug stays with its group."""
    try:
        yield
    except BaseExceptionGroup as group:
        known, bugs = group.split(VlagentError)
        if known is None or bugs is not None:
            raise
        raise _first(known) from None


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def _go_on(book: Book, config: EvalConfig, agent: Agent, judge: Marker | None, watcher: Watcher) -> Evaluation:
    record_start(book.run, config, agent)
    now = _Pass(book, config, judge, watcher, _begin(book, config, judge))
    if watcher.on_start:
        watcher.on_start(now.course.planned - len(book.to_play()) - len(book.unscored), now.course.planned)
    with now.time_limit():
        await now.score_left_overs()
        if not watcher.stop.is_set():
            await now.play(agent)
    now.course.write()
    book.compact()
    summary = summarise(book.run)
    write_json(book.run / "summary.json", summary)
    return Evaluation(summary, now.ended(), now.last_failure)


def _begin(book: Book, config: EvalConfig, judge: Marker | None) -> Course:
    """The course of this start, with what earlier ones cost."""
    before = math.fsum(opinion.usage.cost_usd for opinion in read_opinions(book.run))
    already = judge.usage.cost_usd if judge else 0.0
    return Course(
        book.run,
        len(book.planned),
        config.limits,
        spent_usd=book.cost_usd,
        judges_usd=lambda: before + (judge.usage.cost_usd - already if judge else 0.0),
    )


@dataclass
class _Pass:
    """One pass over what is left."""

    book: Book
    config: EvalConfig
    judge: Marker | None
    watcher: Watcher
    course: Course
    last_failure: str = ""
    over: str = ""
    """The limit of the whole run that was met."""
    failed: set[tuple[str, int]] = field(default_factory=set)
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JUDGE_CALLS))

    def too_many(self) -> bool:
        return len(self.failed) > self.config.max_failed_share * self.course.planned

    def ended(self) -> Ended:
        if self.too_many():
            return "failures"
        if self.over in ("budget", "time"):
            return "budget" if self.over == "budget" else "time"
        return "stopped" if self.watcher.stop.is_set() else "complete"

    @contextmanager
    def time_limit(self) -> Iterator[None]:
        """Stop at the limit of the whole run, even while nothing ends."""
        limit_s = self.config.limits.time_s
        timer = asyncio.get_running_loop().call_later(limit_s, self._check_limits) if limit_s is not None else None
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def _check_limits(self) -> None:
        self.over = self.over or self.course.over()
        if self.over:
            self.watcher.stop.set()

    async def score_left_overs(self) -> None:
        """Episodes that an earlier kill, or a judge that was down, left without a row."""
        async with asyncio.TaskGroup() as group:
            for sample, trajectory in self.book.to_score():
                if self.watcher.stop.is_set():
                    return
                await self._start_scoring(group, sample, trajectory)

    async def play(self, agent: Agent) -> None:
        pace = Pace(self.config.model_limit or self.config.concurrency)
        pool = run_pool(
            replace(agent, model=Paced(agent.model, pace)) if self.config.adaptive else agent,
            self.book.to_play(),
            concurrency=self.config.concurrency,
            model_limit=self.config.model_limit,
            tool_limits=self.config.tool_limits,
            stop=self.watcher.stop,
        )
        async with asyncio.TaskGroup() as group, aclosing(pool) as ended:
            async for sample, trajectory in ended:
                write_trajectory(self.book.run, trajectory)
                self.course.played(trajectory)
                self.course.pace = round(pace.limit, 1) if self.config.adaptive else None
                self._check_limits()
                await self._start_scoring(group, sample, trajectory)

    async def _start_scoring(self, group: asyncio.TaskGroup, sample: Sample, trajectory: Trajectory) -> None:
        """Score beside the pool, but never more than the judge may get: a slow judge holds the pool back."""
        await self.slots.acquire()
        task = group.create_task(self._score(sample, trajectory))
        task.add_done_callback(lambda _: self.slots.release())

    async def _score(self, sample: Sample, trajectory: Trajectory) -> None:
        row = await self._unless_stopped(sample, trajectory)
        if row is None:
            return
        self.book.add(row)
        self.course.scored(row)
        if row.outcome is Outcome.FAILED:
            self.failed.add((row.sample_id, row.rollout))
            self.last_failure = row.why
            if self.too_many():
                self.watcher.stop.set()
        if self.watcher.on_row:
            self.watcher.on_row(row)

    async def _unless_stopped(self, sample: Sample, trajectory: Trajectory) -> EvalRow | None:
        """The row, or None where the run is stopped while the judge still thinks."""
        scoring = asyncio.create_task(row_of(sample, trajectory, self.judge))
        stopping = asyncio.create_task(self.watcher.stop.wait())
        await asyncio.wait({scoring, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not scoring.done():
            await asyncio.sleep(0)
        if scoring.done():
            return scoring.result()
        scoring.cancel()
        with suppress(asyncio.CancelledError):
            await scoring
        return None


async def row_of(sample: Sample, trajectory: Trajectory, judge: Marker | None) -> EvalRow:
    """Score one episode into its row."""
    return scored_row(sample, trajectory, await outcome_of(sample, trajectory, judge))


def scored_row(sample: Sample, trajectory: Trajectory, scored: Scored) -> EvalRow:
    """The score of an episode as it is kept."""
    return EvalRow(
        suite=sample.source,
        sample_id=sample.id,
        rollout=trajectory.rollout,
        outcome=scored.outcome,
        degraded=scored.degraded,
        answer=trajectory.answer,
        answers=sample.answers,
        why=scored.why,
        by=scored.by,
        stop=trajectory.stop,
        reward=scored.reward,
        slices=slices_of(sample),
    )


def slices_of(sample: Sample) -> dict[str, str]:
    """What a sample is grouped by in tables."""
    inner: Any = sample.extra.get("extra_info")
    columns = {**(inner if isinstance(inner, dict) else {}), **sample.extra}
    return {name: str(columns[name]) for name in SLICES if isinstance(columns.get(name), str | int) and columns[name]}
