"""Cancelled at any await, nothing is lost."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.parts import Cut, Policy, Shelf, Twins, answer, call, lines, make_agent, picture, sample
from vlagent.agent.events import Ended, Event, Observed, Started, Wrote
from vlagent.agent.hooks import Allow
from vlagent.agent.loop import run_agent
from vlagent.agent.pool import run_pool
from vlagent.errors import TransientError
from vlagent.types import StopReason

SCRIPT = lines(
    call("text_search", query="castore"),
    call("fly"),
    call("image_crop", bbox=[0, 0, 500, 500], image_index=0),
    call("image_search", image_index=1),
    answer("x"),
)


async def allow(call, sample, turn_index):
    await asyncio.sleep(0)
    return Allow()


def busy_agent(tmp_path, watch, **config):
    """Every kind of await: model, hook, tools, a retry's pause, a time limit."""
    shelf = Shelf(faults=[TransientError("search", "reset")])
    photo = picture(tmp_path)
    config = {"hook": allow, "watch": watch, "time_limit_s": 60, **config}
    return make_agent(Policy(SCRIPT), shelf, Cut(), Twins(photo), **config), sample(images=(photo,))


def check(seen: list[Event], trajectory) -> None:
    """What was told is what is kept."""
    wrote = [event.turn.text for event in seen if isinstance(event, Wrote)]
    observed = [event.turn.observation for event in seen if isinstance(event, Observed)]
    assert [turn.text for turn in trajectory.turns] == wrote
    assert [turn.observation for turn in trajectory.turns if turn.observation] == observed
    assert [type(event) for event in seen].count(Ended) == 1
    assert isinstance(seen[-1], Ended)


@pytest.mark.parametrize(("workflow", "turns"), [("agent", 5), ("rag", 1), ("direct", 1)])
async def test_cancelled_after_any_number_of_steps_the_partial_trajectory_goes_out(tmp_path, workflow, turns):
    lengths, retrieved, steps, cancelled = set(), set(), 1, True
    while cancelled:
        seen: list[Event] = []
        agent, question = busy_agent(tmp_path, seen.append, workflow=workflow)
        task = asyncio.create_task(run_agent(agent, question))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        [outcome] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(seen[0], Started)
        trajectory = seen[-1].trajectory
        check(seen, trajectory)
        cancelled = trajectory.stop is StopReason.CANCELLED
        assert isinstance(outcome, asyncio.CancelledError) if cancelled else outcome is trajectory
        lengths.add(len(trajectory.turns))
        retrieved.add(len(trajectory.context))
        steps += 1
    assert lengths == set(range(turns + 1))
    assert retrieved == ({0, 1, 2} if workflow == "rag" else {0})
    assert steps > turns


async def test_a_stopped_pool_at_any_step_gives_every_episode_that_it_began(tmp_path):
    partial = False
    for steps in range(0, 60, 3):
        seen: list[Event] = []
        agent, question = busy_agent(tmp_path, seen.append)
        stop = asyncio.Event()
        late: list[str] = []
        jobs = watched_jobs(question, stop, late)
        stopper = asyncio.create_task(set_after(stop, steps))
        got = [t async for _, t in run_pool(agent, jobs, concurrency=3, stop=stop)]
        await stopper
        started = [event.sample_id for event in seen if isinstance(event, Started)]
        assert sorted(trajectory.sample_id for trajectory in got) == sorted(started)
        assert late == []
        assert {t.stop for t in got} <= {StopReason.CANCELLED, StopReason.ANSWERED}
        partial |= any(t.stop is StopReason.CANCELLED and t.turns for t in got)
    assert partial


def watched_jobs(question, stop: asyncio.Event, late: list[str]):
    """Six jobs; those that are drawn after `stop` was set are noted."""
    for n in range(6):
        if stop.is_set():
            late.append(f"s{n}")
        yield question.model_copy(update={"id": f"s{n}"}), 0


async def set_after(stop: asyncio.Event, steps: int) -> None:
    for _ in range(steps):
        await asyncio.sleep(0)
    stop.set()


async def test_a_cancelled_consumer_leaves_no_task_and_every_episode_has_ended(tmp_path):
    seen: list[Event] = []
    agent, question = busy_agent(tmp_path, seen.append)
    agent.tools["text_search"].wait_s = 30.0

    async def consume():
        jobs = ((question.model_copy(update={"id": f"s{n}"}), 0) for n in range(8))
        return [t async for _, t in run_pool(agent, jobs, concurrency=8)]

    task = asyncio.create_task(consume())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = [event.trajectory for event in seen if isinstance(event, Ended)]
    assert sorted(t.sample_id for t in ended) == [f"s{n}" for n in range(8)]
    assert {t.stop for t in ended} == {StopReason.CANCELLED}
    assert asyncio.all_tasks() == {asyncio.current_task()}
