"""What a hook may do to a call before it runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.parts import Cut, Policy, Shelf, answer, call, last_text, lines, make_agent, picture, sample
from vlagent.agent.hooks import Allow, Edit, Refuse, Stop
from vlagent.agent.loop import run_agent
from vlagent.errors import UserError
from vlagent.types import Call, StopReason

SEARCH = call("text_search", query="castor")


class Hook:
    """Gives the same decision to every call and remembers what it was asked."""

    def __init__(self, decision, wait_s: float = 0.0) -> None:
        self.decision = decision
        self.wait_s = wait_s
        self.asked: list[tuple[str, str, int]] = []

    async def __call__(self, call, sample, turn_index):
        self.asked.append((call.name, sample.id, turn_index))
        await asyncio.sleep(self.wait_s)
        return self.decision


def after_a_result(request):
    return answer("x") if len(request.messages) > 2 else SEARCH


async def test_an_allowed_call_runs_as_it_was_written():
    shelf, hook = Shelf(), Hook(Allow())
    trajectory = await run_agent(make_agent(Policy(lines(SEARCH, SEARCH, answer("x"))), shelf, hook=hook), sample())
    assert shelf.runs == ["castor", "castor"]
    assert hook.asked == [("text_search", "s1", 0), ("text_search", "s1", 1)]
    assert {turn.edited_by for turn in trajectory.turns} == {None}


async def test_an_edited_call_runs_in_place_of_the_written_one_and_says_who_changed_it():
    shelf = Shelf()
    hook = Hook(Edit(Call(name="text_search", arguments={"query": "castore"}), by="user"))
    model = Policy(after_a_result)
    trajectory = await run_agent(make_agent(model, shelf, hook=hook), sample())
    turn = trajectory.turns[0]
    assert shelf.runs == ["castore"]
    assert (turn.edited_by, turn.call.arguments, turn.text) == ("user", {"query": "castore"}, SEARCH)
    assert "changed by user" in last_text(model.requests[-1])
    assert "2015" in last_text(model.requests[-1])


async def test_what_is_wrong_with_an_edited_call_is_not_the_models_fault():
    hook = Hook(Edit(Call(name="text_search", arguments={"query": "forbidden"}), by="user"))
    trajectory = await run_agent(make_agent(Policy(after_a_result), Shelf(), hook=hook, max_invalid=1), sample())
    assert trajectory.stop is StopReason.ANSWERED
    assert trajectory.turns[0].observation.fault is None


async def test_an_edit_that_does_not_fit_its_tool_is_the_users_error():
    for wrong in (Call(name="fly"), Call(name="text_search", arguments={"q": 3})):
        with pytest.raises(UserError, match="edited call"):
            await run_agent(make_agent(Policy(after_a_result), Shelf(), hook=Hook(Edit(wrong, "user"))), sample())


async def test_an_edited_crop_enters_as_the_picture_that_was_cut(tmp_path):
    def zooms(request):
        return answer("x") if len(request.messages) > 2 else call("image_crop", bbox=[0, 0, 9, 9], image_index=0)

    edit = Edit(Call(name="image_crop", arguments={"bbox": [0, 0, 500, 500], "image_index": 0}), by="budget")
    agent = make_agent(Policy(zooms), Cut(), hook=Hook(edit))
    trajectory = await run_agent(agent, sample(images=(picture(tmp_path),)))
    assert trajectory.images[1].box == (0, 0, 200, 150)


async def test_a_refused_call_does_not_run_and_blames_nobody():
    shelf = Shelf()
    model = Policy(after_a_result)
    agent = make_agent(model, shelf, hook=Hook(Refuse("not allowed today")), max_invalid=1)
    trajectory = await run_agent(agent, sample())
    assert (trajectory.stop, shelf.runs) == (StopReason.ANSWERED, [])
    assert trajectory.turns[0].observation.fault is None
    assert "not allowed today" in last_text(model.requests[-1])


async def test_a_stop_ends_the_episode_as_stopped_by_the_user():
    shelf = Shelf()
    trajectory = await run_agent(make_agent(Policy(lines(SEARCH)), shelf, hook=Hook(Stop("enough"))), sample())
    assert (trajectory.stop, trajectory.stop_detail) == (StopReason.STOPPED_BY_USER, "enough")
    assert (len(trajectory.turns), shelf.runs) == (1, [])


async def test_the_time_that_a_person_thinks_does_not_count():
    slow = Hook(Allow(), wait_s=0.3)
    agent = make_agent(Policy(after_a_result), Shelf(), hook=slow, time_limit_s=0.2)
    assert (await run_agent(agent, sample())).stop is StopReason.ANSWERED


async def test_an_answer_is_not_a_call_and_asks_nobody():
    hook = Hook(Stop())
    trajectory = await run_agent(make_agent(Policy(lines(answer("x"))), Shelf(), hook=hook), sample())
    assert (trajectory.stop, hook.asked) == (StopReason.ANSWERED, [])
