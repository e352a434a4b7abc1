"""One turn of a model, whatever it wrote, becomes one action with its repairs and the worth of its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field

from vlagent.agent.parse import Parsed, parse, scrub, spec_of
from vlagent.chat.base import NativeCall
from vlagent.render.dialects import DIALECTS, get_dialect
from vlagent.tools.base import Arguments, Tool, ToolContext, ToolOutput
from vlagent.tools.registry import make_tools
from vlagent.types import Turn

CASES = Path(__file__).parent.parent / "cases"
TOOLS = make_tools(("text_search", "image_search", "image_crop"))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text(encoding="utf-8").splitlines()]


def outcome(parsed: Parsed) -> str:
    found = {"call": parsed.call, "answer": parsed.answer, "error": parsed.error}
    (name,) = [name for name, value in found.items() if value is not None]
    return name


def read(case: dict[str, Any]) -> Parsed:
    native = [NativeCall(**call) for call in case.get("native_calls", [])]
    dialect = get_dialect(case.get("dialect", "default"))
    return parse(case["text"], case["finish_reason"], dialect, TOOLS, case.get("kinds", ["input"]), native)


@pytest.mark.parametrize("case", [*lines("model_outputs.jsonl"), *lines("dialect_outputs.jsonl")])
def test_every_case_has_its_outcome_repairs_and_format(case: dict[str, Any]) -> None:
    parsed = read(case)
    assert outcome(parsed) == case["outcome"], parsed
    assert list(parsed.repairs) == case["repaired"]
    assert parsed.format_ok is case["format_ok"]


@pytest.mark.parametrize("case", lines("dialect_outputs.jsonl"))
def test_every_case_means_its_canonical_action(case: dict[str, Any]) -> None:
    parsed = read(case)
    assert parsed.answer == case.get("answer")
    if "call" in case:
        assert parsed.call is not None
        assert parsed.call.model_dump() == case["call"]
        assert parsed.arguments is not None
        assert parsed.arguments.model_dump() == case["call"]["arguments"]
    for words in case.get("error_says", []):
        assert parsed.error is not None
        assert words in parsed.error
        assert "\n" not in parsed.error


def test_a_native_id_is_kept_even_when_the_call_is_wrong() -> None:
    parsed = parse("", "tool_calls", DIALECTS["openai-tools"], TOOLS, ["input"], [NativeCall("call_9", "fly", "{}")])
    assert parsed.error is not None
    assert parsed.native_id == "call_9"


def test_a_thought_is_kept_whatever_becomes_of_the_turn() -> None:
    for text in ("<think> why </think><tool_call>3</tool_call>", "<think>why", "<think>why</think><answer>3</answer>"):
        assert parse(text, "stop", DIALECTS["default"], TOOLS, ["input"]).think == "why"


def test_the_text_beside_a_native_call_is_the_thought() -> None:
    call = NativeCall("call_1", "image_search", "{}")
    assert parse(" I look. ", "tool_calls", DIALECTS["openai-tools"], TOOLS, ["input"], [call]).think == "I look."


def test_only_the_tools_of_the_run_are_offered() -> None:
    text = '<think>a</think><tool_call>{"name": "image_search", "arguments": {}}</tool_call>'
    assert parse(text, "stop", DIALECTS["default"], make_tools(("text_search",)), ["input"]).error == (
        "Unknown tool 'image_search'. Available tools: text_search."
    )
    assert parse(text, "stop", DIALECTS["default"], {}, ["input"]).error == (
        "Unknown tool 'image_search'. There are no tools; give the answer."
    )


def test_an_error_quotes_little_of_what_the_model_wrote() -> None:
    text = '<think>a</think><tool_call>{"name": "%s", "arguments": {}}</tool_call>' % ("x\\n" * 5000)
    error = parse(text, "stop", DIALECTS["default"], TOOLS, ["input"]).error
    assert error is not None
    assert len(error) < 200


def test_what_is_parsed_can_be_stored_whatever_characters_the_model_wrote() -> None:
    text = '<think>\ud800</think><tool_call>{"name": "text_search", "arguments": {"query": "\\ud800"}}</tool_call>'
    parsed = parse(text, "stop", DIALECTS["default"], TOOLS, ["input"])
    assert parsed.call is not None
    assert Turn(text=scrub(text), think=parsed.think, call=parsed.call).model_dump_json()


class ZoomArguments(Arguments):
    """Arguments of a third party's tool."""

    bbox: tuple[float, float, float, float]
    image_index: int
    factor: float = 2.0
    times: int = Field(default=1, ge=1, le=9)
    mirrored: bool = False


class Zoom:
    """A third party's tool that takes a region."""

    name: ClassVar[str] = "zoom"
    description: ClassVar[str] = "Zoom."
    arguments: ClassVar[type[Arguments]] = ZoomArguments

    async def run(self, arguments: ZoomArguments, context: ToolContext) -> ToolOutput:
        return ToolOutput(f"{arguments.factor}")


def zoomed(dialect: str, **arguments: Any) -> Parsed:
    tools: dict[str, Tool] = {"zoom": Zoom()}
    tag = DIALECTS[dialect].think
    body = json.dumps({"name": "zoom", "arguments": arguments})
    return parse(f"<{tag}>a</{tag}><tool_call>{body}</tool_call>", "stop", DIALECTS[dialect], tools, ["input"])


def test_a_third_partys_box_and_picture_number_are_mapped_like_our_own() -> None:
    parsed = zoomed("mars-paper", bbox=[0.1, 0.2, 0.5, 0.6], image_index=1)
    assert parsed.call is not None
    assert parsed.call.arguments["bbox"] == [100.0, 200.0, 500.0, 600.0]
    assert parsed.call.arguments["image_index"] == 0
    assert parsed.format_ok


def test_other_arguments_are_held_to_the_tools_schema() -> None:
    box = {"bbox": [1, 2, 3, 4], "image_index": 0}
    assert zoomed("default", **box, times=2.0, factor=3).format_ok
    mended = zoomed("default", **box, times="3")
    assert (mended.repairs, mended.call and mended.call.arguments["times"]) == (("times",), 3)
    for wrong in ({"times": True}, {"times": 10}, {"times": 1.5}, {"factor": "wide"}, {"factor": float("nan")}):
        parsed = zoomed("default", **box, **wrong)
        assert parsed.error is not None
        assert next(iter(wrong)) in parsed.error


def test_a_spec_holds_the_schema_of_the_canonical_arguments() -> None:
    spec = spec_of(TOOLS["image_crop"])
    assert spec.name == "image_crop"
    assert set(spec.schema["required"]) == {"bbox", "image_index"}


@pytest.mark.parametrize(
    "text",
    [
        "<think>so <answer>x</answer></think>",
        "<think>a</think><think>b</think>",
        "so </tool_response>",
        "<think>a</think></answer>",
    ],
)
def test_a_native_thought_that_holds_a_tag_or_comes_twice_costs_the_format(text: str) -> None:
    native = get_dialect("openai-tools")
    call = NativeCall("c", "text_search", '{"query": "x"}')
    assert parse("<think>so</think>", "tool_calls", native, TOOLS, [], [call]).format_ok
    parsed = parse(text, "tool_calls", native, TOOLS, [], [call])
    assert parsed.call is not None
    assert not parsed.format_ok
    assert not parse(f"{text}Paris", "stop", native, TOOLS, []).format_ok


@pytest.mark.parametrize("blank", ["", " \n", "\u200b", "\u00a0\u3000", "\u2060 \ufeff"])
def test_a_thought_that_shows_nothing_is_empty(blank: str) -> None:
    parsed = parse(f"<think>{blank}</think><answer>x</answer>", "stop", get_dialect("default"), TOOLS, [])
    assert parsed.repairs == ("empty_think",)
    assert not parsed.format_ok
