"""A canonical turn, written in a dialect and read back, is the same turn."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlagent.agent.parse import Parsed, parse
from vlagent.render.dialects import DIALECTS, ImageKind
from vlagent.render.tags import holds_tag
from vlagent.tools.registry import make_tools
from vlagent.types import Call, Turn

TOOLS = make_tools(("text_search", "image_search", "image_crop", "calculator"))
KINDS: list[ImageKind] = ["input", "crop", "input", "crop"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
WORDS = TEXT.map(lambda text: text.strip().strip(INVISIBLE).strip()).filter(lambda text: text and not holds_tag(text))
SIDES = st.integers(0, 1000) | st.floats(0, 1000).map(lambda side: round(side, 6))


@st.composite
def boxes(draw: st.DrawFn) -> list[float]:
    x1, x2 = sorted(draw(st.tuples(SIDES, SIDES).filter(lambda pair: pair[0] != pair[1])))
    y1, y2 = sorted(draw(st.tuples(SIDES, SIDES).filter(lambda pair: pair[0] != pair[1])))
    return [float(x1), float(y1), float(x2), float(y2)]


# A box of which every side is at most 1 of 1000 reads as one on the other scale.
CROPS = st.fixed_dictionaries({"bbox": boxes().filter(lambda b: max(b) > 1), "image_index": st.integers(0, 3)})
CALLS = st.one_of(
    st.builds(Call, name=st.just("image_crop"), arguments=CROPS),
    st.builds(Call, name=st.just("image_search"), arguments=st.just({"image_index": 0})),
    st.builds(Call, name=st.just("text_search"), arguments=st.fixed_dictionaries({"query": TEXT.filter(str.strip)})),
    st.builds(Call, name=st.just("calculator"), arguments=st.just({"expression": "1 + 1"})),
)


def read_back(turn: Turn, name: str) -> Parsed:
    message = DIALECTS[name].assistant(turn, KINDS)
    return parse(message.text, "stop", DIALECTS[name], TOOLS, KINDS, message.calls)


@pytest.mark.parametrize("name", DIALECTS)
@given(think=WORDS, call=CALLS)
def test_a_call_comes_back_as_it_was(name: str, think: str, call: Call) -> None:
    parsed = read_back(Turn(text="", think=think, call=call), name)
    assert parsed.error is None
    assert parsed.call == call
    assert (parsed.think, parsed.repairs, parsed.format_ok) == (think, (), True)


@pytest.mark.parametrize("name", DIALECTS)
@given(think=WORDS, answer=WORDS)
def test_an_answer_comes_back_as_it_was(name: str, think: str, answer: str) -> None:
    parsed = read_back(Turn(text="", think=think, answer=answer), name)
    assert (parsed.answer, parsed.error, parsed.repairs, parsed.format_ok) == (answer, None, (), True)
    assert parsed.think == (None if DIALECTS[name].native else think)


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    "query", ["</tool_call>", "<tool_call>{}</tool_call>", "<answer>3</answer>", "a \"b\" 'c' \\ \n"]
)
def test_a_query_may_hold_our_own_tags(name: str, query: str) -> None:
    turn = Turn(text="", think="a", call=Call(name="text_search", arguments={"query": query}))
    parsed = read_back(turn, name)
    assert parsed.call == turn.call
    assert parsed.format_ok
    text = DIALECTS[name].assistant(turn).text
    assert all(text.count(stop) <= 1 for stop in DIALECTS[name].stop), "a stop string would cut the call"


@pytest.mark.parametrize("name", DIALECTS)
def test_every_picture_number_comes_back_where_thumbnails_lie_between(name: str) -> None:
    kinds: list[ImageKind] = ["input", "thumbnail", "thumbnail", "crop"]
    arguments: dict[str, Any] = {"bbox": [1.0, 2.0, 30.0, 40.0], "image_index": 3}
    turn = Turn(text="", think="a", call=Call(name="image_crop", arguments=arguments))
    message = DIALECTS[name].assistant(turn, kinds)
    assert parse(message.text, "stop", DIALECTS[name], TOOLS, kinds, message.calls).call == turn.call


def test_a_native_turn_keeps_its_id() -> None:
    turn = Turn(text="", call=Call(name="text_search", arguments={"query": "a"}), native_id="call_7")
    message = DIALECTS["openai-tools"].assistant(turn)
    assert message.calls[0].id == "call_7"
    other = turn.model_copy(update={"native_id": None})
    assert DIALECTS["openai-tools"].assistant(other).calls[0].id.startswith("call_")
