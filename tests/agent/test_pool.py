"""Many episodes at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing

import pytest

from tests.agent.parts import Policy, Shelf, answer, call, last_text, make_agent, sample
from vlagent.agent.events import Ended
from vlagent.agent.pool import run_pool
from vlagent.errors import UserError
from vlagent.randomness import rng_of
from vlagent.types import StopReason, Trajectory

SEARCH = call("text_search", query="castore")


def jobs(count: int, rollouts: int = 1):
    return [(sample(f"s{n}"), rollout) for n in range(count) for rollout in range(rollouts)]


def dice(request):
    """A model whose every draw comes from its key."""
    throw = rng_of(*request.key).randrange(6)
    return answer(f"{throw} after {last_text(request)}") if throw < 2 else call("text_search", query=f"castore {throw}")


async def outcome(agent, work, **bounds):
    return {(t.sample_id, t.rollout): t async for _, t in run_pool(agent, work, **bounds)}


def essence(trajectory):
    return trajectory.stop, trajectory.answer, [turn.text for turn in trajectory.turns]


def only(ended: list[Trajectory]):
    """A watcher that keeps the trajectories of ended episodes."""
    return lambda event: ended.append(event.trajectory) if isinstance(event, Ended) else None


async def test_results_are_the_same_whatever_the_concurrency():
    work = jobs(20, rollouts=2)
    alone = await outcome(make_agent(Policy(dice), Shelf(), max_turns=6), work, concurrency=1)
    crowd = await outcome(make_agent(Policy(dice), Shelf(), max_turns=6), work, concurrency=64)
    assert {key: essence(t) for key, t in alone.items()} == {key: essence(t) for key, t in crowd.items()}
    assert len({str(essence(t)) for t in alone.values()}) > 10
    other = await outcome(make_agent(Policy(dice), Shelf(), max_turns=6, seed=1), work, concurrency=64)
    assert [essence(t) for t in other.values()] != [essence(t) for t in crowd.values()]


async def test_trajectories_come_in_the_order_of_their_ends():
    class Slow(Shelf):
        async def run(self, arguments, context):
            await asyncio.sleep({"s0": 0.09, "s1": 0.0, "s2": 0.05}[context.sample.id])
            return await super().run(arguments, context)

    model = Policy(lambda request: answer("x") if len(request.messages) > 2 else SEARCH)
    agent = make_agent(model, Slow())
    got = [(s.id, t.sample_id) async for s, t in run_pool(agent, jobs(3), concurrency=3)]
    assert got == [("s1", "s1"), ("s2", "s2"), ("s0", "s0")]


async def test_at_most_the_bounded_number_of_calls_run_at_one_time():
    work = jobs(12)
    for model_limit, tool_limit in ((2, 3), (5, 1), (None, None)):
        model = Policy(lambda request: answer("x") if len(request.messages) > 2 else SEARCH, wait_s=0.002)
        shelf = Shelf()
        shelf.wait_s = 0.02
        limits = {"text_search": tool_limit} if tool_limit else {}
        await outcome(make_agent(model, shelf), work, concurrency=12, model_limit=model_limit, tool_limits=limits)
        assert (model.peak, shelf.peak) == (model_limit or 12, tool_limit or 12)


async def test_waiting_for_a_slot_is_no_time_out_of_the_tool():
    shelf = Shelf()
    shelf.wait_s = 0.05
    agent = make_agent(Policy(lambda request: answer("x") if len(request.messages) > 2 else SEARCH), shelf)
    agent.retry = type(agent.retry)(attempts=1, timeout_s=0.15)
    done = await outcome(agent, jobs(8), concurrency=8, tool_limits={"text_search": 1})
    assert not any(t.degraded for t in done.values())


async def test_a_slow_consumer_holds_back_the_source_of_jobs():
    drawn: list[int] = []

    def source():
        for n in range(50):
            drawn.append(n)
            yield sample(f"s{n}"), 0

    got = 0
    agent = make_agent(Policy(lambda request: answer("x")), Shelf())
    async for _ in run_pool(agent, source(), concurrency=4):
        got += 1
        await asyncio.sleep(0.002)
        assert len(drawn) <= got + 4
    assert got == 50


async def test_a_pool_that_is_left_early_cancels_what_runs():
    ended: list[Trajectory] = []
    shelf = Shelf()

    def hurries(request):
        return answer("x") if request.key[1] == "s0" else SEARCH

    shelf.wait_s = 30
    async with aclosing(
        run_pool(make_agent(Policy(hurries), shelf, watch=only(ended)), jobs(5), concurrency=5)
    ) as pool:
        async for drawn, _ in pool:
            assert drawn.id == "s0"
            break
    assert Counter(t.stop for t in ended) == {StopReason.ANSWERED: 1, StopReason.CANCELLED: 4}
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_bug_in_one_episode_is_raised_at_once_and_cancels_the_rest():
    ended: list[Trajectory] = []
    shelf = Shelf()
    shelf.wait_s = 30

    def breaks(request):
        return ZeroDivisionError("bug") if request.key[1] == "s2" else SEARCH

    with pytest.raises(ZeroDivisionError):
        await outcome(make_agent(Policy(breaks), shelf, watch=only(ended)), jobs(5), concurrency=5)
    assert [t.stop for t in ended] == [StopReason.CANCELLED] * 4
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_the_source_of_jobs_is_raised():
    def source():
        yield sample("s0"), 0
        raise UserError("row 2 is broken")

    with pytest.raises(UserError, match="row 2"):
        await outcome(make_agent(Policy(lambda request: answer("x")), Shelf()), source(), concurrency=4)


async def test_no_jobs_give_no_trajectories_and_a_bound_of_nothing_is_the_users_error():
    agent = make_agent(Policy(lambda request: answer("x")), Shelf())
    assert await outcome(agent, []) == {}
    for bounds in ({"concurrency": 0}, {"model_limit": 0}, {"tool_limits": {"text_search": 0}}):
        with pytest.raises(UserError, match="at least 1"):
            await outcome(agent, jobs(1), **bounds)


async def test_a_cancellation_that_comes_from_inside_an_episode_ends_only_that_one():
    def breaks(request):
        return asyncio.CancelledError() if request.key[1] == "s1" else answer("x")

    class Inner(Policy):
        async def complete(self, request):
            if request.key[1] == "s1":
                raise asyncio.CancelledError
            return await super().complete(request)

    done = await outcome(make_agent(Inner(breaks), Shelf()), jobs(3), concurrency=3)
    assert [done[f"s{n}", 0].stop for n in range(3)] == [StopReason.ANSWERED, StopReason.CANCELLED, StopReason.ANSWERED]
