from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from vlagent.agent.hooks import Allow, Decision, Edit, Refuse, Stop
from vlagent.cli.confirm import Confirm
from vlagent.cli.live import LiveView
from vlagent.cli.terminal import console_for
from vlagent.tools.registry import make_tools
from vlagent.types import Call, Sample

CALL = Call(name="image_crop", arguments={"bbox": [0.0, 0.0, 500.0, 500.0], "image_index": 0})
EDITED = '{"bbox": [100, 100, 200, 200], "image_index": 0}'


async def decide(*lines: str | None) -> tuple[Decision, str]:
    """The decision after these typed lines, and what the person saw."""
    typed: Iterator[str | None] = iter(lines)
    stream = io.StringIO()
    console = console_for(stream)

    async def read() -> str | None:
        return next(typed)

    hook = Confirm(console, make_tools(["image_crop"]), LiveView(console), read)
    return await hook(CALL, Sample(id="s", source="t", question="q"), 0), stream.getvalue()


@pytest.mark.parametrize("line", ["a", "", "Allow", "y"])
async def test_allow(line: str) -> None:
    assert (await decide(line))[0] == Allow()


async def test_refuse_gives_the_reason_to_the_model() -> None:
    assert (await decide("r", "not that one"))[0] == Refuse("not that one")


async def test_edit_replaces_the_arguments_and_names_the_user() -> None:
    decision, _ = await decide("e", EDITED)
    assert isinstance(decision, Edit)
    assert (decision.call.arguments["bbox"], decision.by) == ([100, 100, 200, 200], "user")


@pytest.mark.parametrize("bad", ["{not json", "[1, 2]", '{"bbox": [1, 2, 3]}', '{"colour": "red"}'])
async def test_a_bad_edit_is_explained_and_asked_again(bad: str) -> None:
    decision, seen = await decide("e", bad, "a")
    assert decision == Allow()
    assert seen.count("[a]llow") == 2
    assert len(seen.splitlines()) >= 2


async def test_an_unknown_word_is_asked_again() -> None:
    decision, seen = await decide("what?", "s")
    assert isinstance(decision, Stop)
    assert seen.count("[a]llow") == 2


async def test_the_end_of_the_input_stops() -> None:
    assert isinstance((await decide(None))[0], Stop)


async def test_the_end_of_the_input_stops_and_leaves_the_line() -> None:
    decision, seen = await decide(None)
    assert isinstance(decision, Stop)
    assert seen.endswith("> \n")
