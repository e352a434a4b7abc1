"""Whose fault a failure is, what is retried, and what ends the episode."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.parts import Policy, Shelf, answer, call, last_text, lines, make_agent, sample
from vlagent.agent.loop import run_agent
from vlagent.errors import AuthError, PermanentError, RateLimitedError, ServiceError, TransientError, UserError
from vlagent.search.base import SearchServices
from vlagent.tools.base import RetryPolicy, ToolContext, run_tool
from vlagent.types import Fault, StopReason

SEARCH = call("text_search", query="castore")


def down() -> ServiceError:
    return PermanentError("search", "down")


async def run(shelf: Shelf, **retry: float):
    context = ToolContext(sample=sample(), images=[], search=SearchServices())
    arguments = shelf.arguments.model_validate({"query": "castore"})
    return await run_tool(shelf, arguments, context, RetryPolicy(**{"wait_s": 0.0, **retry}))


async def test_a_passing_world_fault_is_retried_and_leaves_a_clean_result():
    shelf = Shelf(faults=[TransientError("search", "reset"), RateLimitedError("search", "429", retry_after_s=0.0)])
    seen = await run(shelf, attempts=3)
    assert (seen.fault, seen.retries, seen.text) == (None, 2, "castore: Castore was founded in 2015.")


async def test_attempts_bound_the_retries():
    shelf = Shelf(faults=[TransientError("search", "reset")] * 5)
    seen = await run(shelf, attempts=2)
    assert (seen.fault, len(shelf.runs)) == (Fault.WORLD, 2)
    assert "unavailable" in seen.text
    assert "reset" in seen.text
    assert "\n" not in seen.text


async def test_what_cannot_be_mended_by_trying_again_is_not_retried():
    shelf = Shelf(faults=[AuthError("search", "no key")])
    seen = await run(shelf, attempts=3)
    assert (seen.fault, len(shelf.runs)) == (Fault.WORLD, 1)


async def test_a_service_that_asks_for_a_longer_pause_than_allowed_is_given_up_on():
    asked = [RateLimitedError("search", "429", retry_after_s=0.02)]
    assert (await run(Shelf(faults=list(asked)), max_wait_s=0.01)).fault is Fault.WORLD
    assert (await run(Shelf(faults=list(asked)), max_wait_s=1.0)).fault is None


async def test_the_pause_before_another_attempt_is_the_policys_or_what_the_service_asked_for():
    async def pause(fault: ServiceError, **retry: float) -> float:
        started = asyncio.get_running_loop().time()
        assert (await run(Shelf(faults=[fault]), **retry)).fault is None
        return asyncio.get_running_loop().time() - started

    assert await pause(TransientError("search", "reset"), wait_s=0.03) >= 0.03
    assert await pause(RateLimitedError("search", "429", retry_after_s=0.04), wait_s=0.0) >= 0.04


async def test_a_tool_that_hangs_is_the_worlds_fault():
    shelf = Shelf()
    shelf.wait_s = 30.0
    seen = await run(shelf, attempts=2, timeout_s=0.02)
    assert (seen.fault, len(shelf.runs)) == (Fault.WORLD, 2)
    assert "0.02 s" in seen.text


async def test_a_retry_policy_that_never_tries_is_the_users_error():
    with pytest.raises(UserError, match="attempts"):
        RetryPolicy(attempts=0)


async def test_an_answer_after_a_world_fault_is_marked_degraded():
    shelf = Shelf(faults=[down()])

    def goes_on(request):
        return answer("x") if "unavailable" in last_text(request) else SEARCH

    trajectory = await run_agent(make_agent(Policy(goes_on), shelf), sample())
    assert (trajectory.stop, trajectory.degraded) == (StopReason.ANSWERED, True)
    assert trajectory.sources == ()


async def test_three_world_faults_in_a_row_end_the_episode():
    shelf = Shelf(faults=[down()] * 9)
    trajectory = await run_agent(make_agent(Policy(lines(SEARCH)), shelf), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.TOOL_FAILURE, 3)
    assert "down" in trajectory.stop_detail
    once = await run_agent(make_agent(Policy(lines(SEARCH)), Shelf(faults=[down()]), max_world_faults=1), sample())
    assert (once.stop, len(once.turns)) == (StopReason.TOOL_FAILURE, 1)


async def test_a_result_between_two_world_faults_starts_the_count_again_but_a_wrong_call_does_not():
    model = Policy(lines(SEARCH, SEARCH, SEARCH, SEARCH, answer("x")))
    shelf = Shelf(faults=[down(), None, down(), None])
    assert (await run_agent(make_agent(model, shelf, max_world_faults=2), sample())).stop is StopReason.ANSWERED
    wrong_between = Policy(lines(SEARCH, call("fly"), SEARCH, SEARCH, answer("x")))
    shelf = Shelf(faults=[down()] * 3)
    assert (await run_agent(make_agent(wrong_between, shelf), sample())).stop is StopReason.TOOL_FAILURE


async def test_world_faults_never_count_as_invalid_actions():
    shelf = Shelf(faults=[down()] * 9)
    config = {"max_invalid": 1, "max_world_faults": 5}
    trajectory = await run_agent(make_agent(Policy(lines(SEARCH)), shelf, **config), sample())
    assert (trajectory.stop, len(trajectory.turns)) == (StopReason.TOOL_FAILURE, 5)


async def test_a_bug_in_a_tool_keeps_its_traceback():
    shelf = Shelf(faults=[ZeroDivisionError("bug")])
    with pytest.raises(ZeroDivisionError):
        await run_agent(make_agent(Policy(lines(SEARCH)), shelf), sample())


async def test_a_bug_in_a_model_keeps_its_traceback():
    with pytest.raises(KeyError):
        await run_agent(make_agent(Policy(lines(KeyError("bug"))), Shelf()), sample())


async def test_an_agent_without_a_tool_that_it_needs_is_the_users_error():
    with pytest.raises(UserError, match="image_crop"):
        make_agent(Policy(lines("")), Shelf(), tools=("text_search", "image_crop"))
    with pytest.raises(UserError, match="text_search"):
        make_agent(Policy(lines("")), workflow="rag")
