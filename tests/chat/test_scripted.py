"""A model that plays its lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vlagent.chat.base import ChatReply, ChatRequest, Message, TextPart
from vlagent.chat.open import open_chat
from vlagent.chat.scripted import Scripted
from vlagent.errors import ServiceError, TransientError, UserError


def at_turn(turn: int) -> ChatRequest:
    said = (Message("assistant", (TextPart("x"),)), Message("user", (TextPart("y"),)))
    return ChatRequest((Message("user", (TextPart("?"),)), *said * turn))


async def test_the_line_is_that_of_the_turn_in_any_order() -> None:
    model = Scripted(["one", ChatReply("two", finish_reason="length")])
    assert (await model.complete(at_turn(1))).finish_reason == "length"
    assert (await model.complete(at_turn(0))).text == "one"
    assert (await model.complete(at_turn(0))).text == "one"


async def test_a_failure_can_be_a_line_and_past_the_end_is_one() -> None:
    model = Scripted([TransientError("net", "down")])
    with pytest.raises(TransientError, match="down"):
        await model.complete(at_turn(0))
    with pytest.raises(ServiceError, match="the script has 1 lines, this is turn 3"):
        await model.complete(at_turn(2))


async def test_a_function_sees_the_request() -> None:
    model = Scripted(lambda request: request.messages[0].text.upper() or "EMPTY", name="loud")
    assert (await model.complete(ChatRequest((Message("user", (TextPart("hey"),)),)))).text == "HEY"
    assert model.name == "loud"


async def test_a_script_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text(json.dumps(["a", "b"]))
    model = open_chat(f"scripted:{tmp_path / 'lines.json'}")
    assert (await model.complete(at_turn(1))).text == "b"
    (tmp_path / "lines.json").write_text('{"a": 1}')
    with pytest.raises(UserError, match="a JSON list of texts"):
        open_chat(f"scripted:{tmp_path / 'lines.json'}")
    with pytest.raises(UserError, match="no such file"):
        open_chat(f"scripted:{tmp_path / 'gone.json'}")
