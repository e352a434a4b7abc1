"""One turn without tools, with and without searches before it."""

from __future__ import annotations

import pytest

from tests.agent.parts import Policy, Shelf, Twins, answer, call, lines, make_agent, picture, sample
from vlagent.agent.loop import run_agent
from vlagent.chat.base import ChatReply
from vlagent.errors import PermanentError
from vlagent.search.base import TextQuery
from vlagent.tools.text_search import TextSearch
from vlagent.types import Hit, StopReason


async def test_direct_has_one_turn_and_no_tools(tmp_path):
    model, shelf = Policy(lines(answer("x"))), Shelf()
    trajectory = await run_agent(make_agent(model, shelf, workflow="direct"), sample(images=(picture(tmp_path),)))
    assert (trajectory.stop, trajectory.answer, trajectory.workflow) == (StopReason.ANSWERED, "x", "direct")
    [request] = model.requests
    assert "text_search" not in request.messages[0].text
    assert len(request.messages[-1].images) == 1


async def test_a_call_in_direct_is_no_answer():
    shelf = Shelf()
    model = Policy(lines(call("text_search", query="castore")))
    trajectory = await run_agent(make_agent(model, shelf, workflow="direct"), sample())
    assert (trajectory.stop, trajectory.answer, shelf.runs) == (StopReason.TURN_LIMIT, None, [])


@pytest.mark.parametrize("text", ["it is 3", "<think>hm</think>it is 3", "<thinking>hm</thinking>\nit is 3"])
async def test_where_nothing_can_be_called_a_reply_without_tags_is_the_answer(text):
    direct = await run_agent(make_agent(Policy(lines(text)), workflow="direct"), sample())
    assert (direct.answer, direct.turns[0].format_ok) == ("it is 3", False)
    assert "plain_answer" in direct.turns[0].repairs
    loop = await run_agent(make_agent(Policy(lines(text)), Shelf(), max_turns=1), sample())
    assert (loop.answer, loop.stop) == (None, StopReason.TURN_LIMIT)


@pytest.mark.parametrize(
    "reply",
    [ChatReply("it is", finish_reason="length"), "", "<think>only</think>", "<tool_call>{}", "<answer></answer>"],
)
async def test_half_a_reply_is_no_answer(reply):
    trajectory = await run_agent(make_agent(Policy(lines(reply)), workflow="direct"), sample())
    assert (trajectory.stop, trajectory.answer) == (StopReason.TURN_LIMIT, None)


async def test_rag_searches_the_first_picture_and_then_the_question_with_the_top_title(tmp_path):
    first, second = picture(tmp_path, "a.png"), picture(tmp_path, "b.png")
    twins, shelf = Twins(first), Shelf()

    def reads(request):
        return answer("2015" if "founded in 2015" in request.messages[-1].text else "unknown")

    model = Policy(reads)
    trajectory = await run_agent(make_agent(model, twins, shelf, workflow="rag"), sample(images=(first, second)))
    assert (trajectory.answer, len(trajectory.turns)) == ("2015", 1)
    assert twins.searched == [first]
    assert shelf.runs == ["When was it founded? castore"]
    assert [source.title for source in trajectory.sources] == ["castore", "other", "castore"]
    assert trajectory.images == (first, second)
    assert [seen.images for seen in trajectory.context] == [(), ()]
    assert "founded in 2015" in trajectory.prompt


async def test_rag_without_a_picture_searches_the_text_alone(tmp_path):
    shelf = Shelf()
    agent = make_agent(Policy(lines(answer("x"))), Twins(picture(tmp_path)), shelf, workflow="rag")
    await run_agent(agent, sample())
    assert shelf.runs == ["When was it founded?"]


async def test_a_world_fault_in_rag_degrades_the_answer_or_ends_the_episode(tmp_path):
    photo, down = picture(tmp_path), PermanentError("images", "down")
    asked = sample(images=(photo,))
    model = Policy(lines(answer("x")))
    degraded = await run_agent(make_agent(model, Twins(photo, fault=down), Shelf(), workflow="rag"), asked)
    assert (degraded.stop, degraded.degraded) == (StopReason.ANSWERED, True)
    assert "unavailable" not in degraded.prompt
    shelf = Shelf(faults=[PermanentError("search", "down")])
    agent = make_agent(model, Twins(photo, fault=down), shelf, workflow="rag", max_world_faults=2)
    ended = await run_agent(agent, asked)
    assert (ended.stop, ended.turns, len(ended.context)) == (StopReason.TOOL_FAILURE, (), 2)


async def test_results_of_rag_that_do_not_fit_are_replaced_by_one_line():
    shelf = Shelf({"founded": "many words " * 3000})
    model = Policy(lines(answer("x")))
    trajectory = await run_agent(make_agent(model, shelf, workflow="rag", max_tokens_total=4000), sample())
    assert trajectory.stop is StopReason.ANSWERED
    assert "too long" in trajectory.prompt
    roomy = await run_agent(make_agent(model, shelf, workflow="rag"), sample())
    assert "many words" in roomy.prompt


class Catalogue:
    """A text search that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, query: TextQuery) -> list[Hit]:
        self.asked.append(query.text)
        return []


@pytest.mark.parametrize("question", ["", " ", "why? " * 2000, "\ud800", "?" * 2000])
@pytest.mark.parametrize("title", ["castore", "", "long title " * 900])
async def test_rag_asks_what_a_text_search_can_take_whatever_the_question_is(tmp_path, question, title):
    catalogue = Catalogue()
    agent = make_agent(Policy(lines(answer("x"))), Twins(picture(tmp_path), title), TextSearch(), workflow="rag")
    agent.search.text = catalogue
    trajectory = await run_agent(agent, sample(question=question, images=(picture(tmp_path),)))
    assert trajectory.stop is StopReason.ANSWERED
    if question.strip() or title:
        (asked,) = catalogue.asked
        assert len(asked) <= 2000
        assert title.strip()[:500].strip() in asked
