"""Whatever a model writes, in whichever dialect: no exception leaves the loop and every episode has a named end."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.agent.parts import Cut, Policy, Shelf, Twins, answer, lines, make_agent, picture, sample
from tests.malformed import kinds_of, make
from vlagent.agent.loop import run_agent
from vlagent.chat.base import ChatReply, NativeCall
from vlagent.render.dialects import DIALECTS
from vlagent.tools.registry import make_tools
from vlagent.types import Call, Fault, StopReason, Turn

CASES_FILE = Path(__file__).parents[1] / "cases" / "model_outputs.jsonl"
CASES = [json.loads(line) for line in CASES_FILE.read_text().splitlines()]
WHOLE = {"bbox": [0.0, 0.0, 500.0, 500.0], "image_index": 0}
PIECES = [
    "<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>", "<answer>", "</answer>", "x",
    '{"name": "text_search", "arguments": {"query": "castore"}}', '{"name": "image_crop", "arguments": ', "```json\n",
    '{"bbox": [0, 0, 9, 9]}', "}", '"', "'", "[", "null", "NaN", "\\u0000", "\ud800", "<|im_end|>", "\n", "1e999",
    "寺", " ",
]  # fmt: skip


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    return picture(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
async def test_every_known_malformed_turn_leads_to_its_outcome(case, photo):
    reply = ChatReply(case["text"], finish_reason=case["finish_reason"])
    model = Policy(lines(reply, answer("end")))
    agent = make_agent(model, Shelf(), Cut(), Twins(photo), max_turns=2)
    trajectory = await run_agent(agent, sample(images=(photo,)))
    first = trajectory.turns[0]
    assert first.format_ok == case["format_ok"]
    assert set(case["repaired"]) <= set(first.repairs)
    if case["outcome"] == "answer":
        assert (trajectory.stop, len(trajectory.turns)) == (StopReason.ANSWERED, 1)
        return
    assert trajectory.answer == "end"
    assert (first.call is None) == (first.observation.fault is Fault.MODEL) == (case["outcome"] == "error")


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_kind_of_malformed_turn_ends_with_a_name_in_every_dialect(dialect, photo):
    form = DIALECTS[dialect]
    end = form.assistant(Turn(text="", think="so", answer="end")).text
    for kind in kinds_of(form):
        for number in range(3):
            turn = make(kind, form, Random(f"{kind} {number}"))
            model = Policy(lines(ChatReply(turn.text, turn.finish_reason, turn.native_calls), end))
            agent = make_agent(model, Shelf(), Twins(photo), *make_tools(["image_crop"]).values(), dialect=dialect)
            trajectory = await run_agent(agent, sample(images=(photo,)))
            first = trajectory.turns[0]
            found = {"answer": first.answer, "error": first.error, "call": first.call}
            assert [name for name, value in found.items() if value is not None] == [turn.outcome], (kind, turn)
            if turn.finish_reason == "content_filter":
                assert trajectory.stop is StopReason.MODEL_FAILURE
                continue
            assert trajectory.stop is StopReason.ANSWERED
            assert (trajectory.answer == "end") == (turn.outcome != "answer" or first.answer == "end")
            if turn.outcome == "error":
                assert first.observation.fault is Fault.MODEL


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), min_size=1, max_size=4))
async def test_no_text_of_a_model_breaks_the_loop(photo, dialect, turns):
    model = Policy(lines(*[ChatReply(text, finish_reason="stop") for text in turns]))
    agent = make_agent(model, Shelf(), Cut(), Twins(photo), dialect=dialect, max_turns=6)
    trajectory = await run_agent(agent, sample(images=(photo,)))
    assert trajectory.stop in {StopReason.ANSWERED, StopReason.TURN_LIMIT, StopReason.INVALID_ACTIONS}
    assert (trajectory.answer is not None) == (trajectory.stop is StopReason.ANSWERED)
    assert trajectory.model_dump_json()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(st.sampled_from(["text_search", "image_crop", "fly", ""]), min_size=1, max_size=3),
    arguments=st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
)
async def test_no_native_call_breaks_the_loop_and_each_call_of_the_history_has_its_result(photo, names, arguments):
    calls = tuple(NativeCall(f"id{n}", name, arguments) for n, name in enumerate(names))
    model = Policy(lines(ChatReply("", "tool_calls", calls), ChatReply("so", "tool_calls", calls), ChatReply("end")))
    agent = make_agent(model, Shelf(), Cut(), Twins(photo), dialect="openai-tools")
    trajectory = await run_agent(agent, sample(images=(photo,)))
    assert trajectory.answer == "end"
    history = model.requests[-1].messages
    made = [call.id for message in history for call in message.calls]
    assert [message.call_id for message in history if message.role == "tool"] == made == ["id0", "id0"]
    assert all(isinstance(json.loads(call.arguments), dict) for message in history for call in message.calls)
    assert model.requests[0].tools


@pytest.mark.parametrize("dialect", ["default", "mars-released", "mars-paper"])
async def test_the_same_canonical_episode_runs_in_every_text_dialect(photo, dialect):
    form, kinds = DIALECTS[dialect], ["input", "crop"]
    turns = [
        Turn(text="", think="look", call=Call(name="image_crop", arguments=WHOLE)),
        Turn(text="", think="closer", call=Call(name="image_crop", arguments={**WHOLE, "image_index": 1})),
        Turn(text="", think="who", call=Call(name="image_search", arguments={"image_index": 0})),
        Turn(text="", think="when", call=Call(name="text_search", arguments={"query": "castore"})),
        Turn(text="", think="so", answer="2015"),
    ]
    model = Policy(lines(*[form.assistant(turn, kinds).text for turn in turns]))
    trajectory = await run_agent(
        make_agent(model, Shelf(), Cut(), Twins(photo), dialect=dialect), sample(images=(photo,))
    )
    assert (trajectory.stop, trajectory.answer, trajectory.dialect) == (StopReason.ANSWERED, "2015", dialect)
    assert [turn.call for turn in trajectory.turns] == [turn.call for turn in turns]
    assert all(turn.format_ok and not turn.repairs for turn in trajectory.turns)
    assert [ref.box for ref in trajectory.images] == [None, (0, 0, 200, 150), (0, 0, 100, 75), None]


async def test_a_closing_tag_that_a_stop_string_ate_stands_again_in_the_history():
    eaten = "<think>so</think><tool_call>" + json.dumps({"name": "text_search", "arguments": {"query": "castore"}})
    model = Policy(lines(eaten, answer("x")))
    trajectory = await run_agent(make_agent(model, Shelf()), sample())
    assert trajectory.turns[0].format_ok
    assert model.requests[0].stop == ("</tool_call>", "</answer>")
    assert model.requests[1].messages[2].text.endswith("</tool_call>")
