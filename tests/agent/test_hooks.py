"""What a hook may do to a call before it runs."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.parts import (
    Cut,
    Policy,
    Shelf,
    Twins,
    answer,
    call,
    last_text,
    lines,
    make_agent,
    picture,
    sample,
    turn_of,
)
from vlagent.agent.episode import Episode
from vlagent.agent.hooks import Allow, Edit, Refuse, Stop
from vlagent.agent.loop import run_agent
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import UserError
from vlagent.render.dialects import DIALECTS
from vlagent.types import Call, StopReason, Turn

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


CROPPED = Call(name="image_crop", arguments={"bbox": [0.0, 0.0, 500.0, 500.0], "image_index": 0})
LOOKED_UP = Call(name="image_search", arguments={"image_index": 0})


def plays(dialect: str, first: Call):
    """A policy that makes one call in a dialect's wire form, and then answers."""
    turns = (Turn(text="", think="so", call=first, native_id="c"), Turn(text="", think="so", answer="x"))

    def decide(request):
        said = DIALECTS[dialect].assistant(turns[turn_of(request)], ["input"])
        return ChatReply(said.text, "tool_calls" if said.calls else "stop", calls=said.calls)

    return Policy(decide)


def words_after(request, before: int) -> str:
    return "\n".join(message.text for message in request.messages[before:])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("wanted", [CROPPED, LOOKED_UP], ids=["crop", "search"])
async def test_the_words_of_the_environment_reach_the_model_in_every_dialect(tmp_path, dialect, wanted):
    photo, shown = picture(tmp_path), picture(tmp_path, "thumb.png")
    tools = (Cut(), Twins(shown))
    size = await tokens_before_the_result(tmp_path, dialect, wanted)
    cases = {
        "not allowed today": {"hook": Hook(Refuse("not allowed today"))},
        "changed by budget": {"hook": Hook(Edit(wanted, by="budget"))},
        "too long to be shown": {"max_tokens_total": size + 110, "max_tokens_turn": 64},
    }
    for words, setting in cases.items():
        model = plays(dialect, wanted)
        trajectory = await run_agent(make_agent(model, *tools, dialect=dialect, **setting), sample(images=(photo,)))
        assert trajectory.stop is StopReason.ANSWERED, words
        told = words_after(model.requests[1], len(model.requests[0].messages) + 1)
        assert words in told
        pictures = [image for message in model.requests[1].messages for image in message.images]
        assert len(pictures) == (2 if "changed" in words else 1)


async def tokens_before_the_result(folder, dialect: str, wanted: Call) -> int:
    """The episode's size once the call is written."""
    agent = make_agent(
        plays(dialect, wanted), Cut(), Twins(picture(folder, "thumb.png")), dialect=dialect, hook=Hook(Stop())
    )
    episode = Episode.begin(agent, sample(images=(picture(folder),)), 0)
    episode.ask()
    reply = await agent.model.complete(ChatRequest(tuple(episode.messages)))
    episode.hear(Turn(text=reply.text), reply)
    return episode.ledger.total


async def test_the_time_limit_goes_on_after_a_person_has_decided():
    shelf = Shelf()
    shelf.wait_s = 30.0
    agent = make_agent(Policy(lines(SEARCH)), shelf, hook=Hook(Allow(), wait_s=0.05), time_limit_s=0.2)
    trajectory = await asyncio.wait_for(run_agent(agent, sample()), 10)
    assert trajectory.stop is StopReason.TIME_LIMIT
