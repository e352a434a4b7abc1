"""Named kinds of malformed turns, eighty each in every dialect, and text that nobody thought of."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.malformed import kinds_of, make
from vlagent.agent.parse import Parsed, parse
from vlagent.chat.base import NativeCall
from vlagent.render.dialects import DIALECTS
from vlagent.tools.registry import make_tools

TOOLS = make_tools(("text_search", "image_search", "image_crop", "calculator", "table"))
EACH = 80


def outcome(parsed: Parsed) -> str:
    found = {"call": parsed.call, "answer": parsed.answer, "error": parsed.error}
    (name,) = [name for name, value in found.items() if value is not None]
    return name


def test_there_are_enough_kinds_in_every_dialect() -> None:
    assert min(len(kinds_of(dialect)) for dialect in DIALECTS.values()) >= 25


@pytest.mark.parametrize("name", DIALECTS)
def test_each_malformed_turn_has_its_expected_outcome(name: str) -> None:
    dialect = DIALECTS[name]
    tools = make_tools(("text_search", "image_search", "image_crop"))
    for kind in kinds_of(dialect):
        for number in range(EACH):
            turn = make(kind, dialect, Random(f"{name} {kind} {number}"))
            parsed = parse(turn.text, turn.finish_reason, dialect, tools, ["input"], turn.native_calls)
            assert outcome(parsed) == turn.outcome, (kind, turn, parsed)
            assert turn.repairs is None or parsed.repairs == turn.repairs, (kind, turn, parsed)
            assert parsed.format_ok is turn.format_ok, (kind, turn, parsed)


def test_the_kinds_differ_from_seed_to_seed_and_not_from_run_to_run() -> None:
    dialect = DIALECTS["default"]
    assert make("two calls", dialect, Random(1)) == make("two calls", dialect, Random(1))
    assert make("two calls", dialect, Random(1)) != make("two calls", dialect, Random(2))


PIECES = st.sampled_from(
    [
        *("<think>", "</think>", "<thinking>", "</thinking>", "<tool_call>", "</tool_call>", "<answer>", "</answer>"),
        *("<tool_response>", "</tool_response>", '{"name": "text_search", "arguments": {"query": "', '"}}', "{", "}"),
        *("[", "]", '"', "'", ":", ",", '"name"', '"arguments"', '"image_crop"', "bbox", "1e999", "NaN", "0x1F", "-"),
        *(
            "null",
            "true",
            "```json",
            "```",
            "\\",
            "\\ud800",
            "\ud800",
            "\x00",
            "\n",
            "//",
            "/*",
            "9" * 400,
            "<|im_end|>",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=12), max_size=40).map("".join)


@settings(max_examples=400)
@given(text=TEXTS, inside=st.booleans(), name=st.sampled_from(list(DIALECTS)), pictures=st.integers(0, 2))
def test_no_text_raises_and_each_becomes_exactly_one_action(text: str, inside: bool, name: str, pictures: int) -> None:
    dialect = DIALECTS[name]
    turn = f"<{dialect.think}>a</{dialect.think}><tool_call>{text}</tool_call>" if inside else text
    calls = [NativeCall("c", "image_crop", text)] if dialect.native and inside else []
    parsed = parse(turn, "stop", dialect, TOOLS, ["input"] * pictures, calls)
    assert outcome(parsed) == "error" or parsed.error is None
    if parsed.call is not None and parsed.call.name == "image_crop":
        x1, y1, x2, y2 = parsed.call.arguments["bbox"]
        assert 0 <= x1 < x2 <= 1000
        assert 0 <= y1 < y2 <= 1000


@pytest.mark.parametrize(
    "body", ["[" * 100_000, '{"a":' * 50_000, "{'a':" * 3_000, "9" * 100_000, "{'a': '" + "\\'" * 1_900]
)
def test_hostile_json_is_an_error_and_not_a_crash(body: str) -> None:
    text = f"<think>a</think><tool_call>{body}</tool_call>"
    parsed = parse(text, "stop", DIALECTS["default"], TOOLS, ["input"])
    assert parsed.error is not None
    assert len(parsed.error) < 300


@pytest.mark.parametrize(
    "piece", ["< ", "<", "</", "<think>", "<tool_call>", "<think><tool_call>", "</think>", "```", "[1 "]
)
def test_a_long_hostile_turn_does_not_hang(piece: str) -> None:
    """Quadratic time would run into the suite's own limit."""
    for text in (piece * 100_000, f"<think>a</think><tool_call>{piece * 100_000}", f"<{' ' * 100_000}{piece}"):
        assert parse(text, "stop", DIALECTS["default"], TOOLS, ["input"]).error is not None
