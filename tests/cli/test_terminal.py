from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from vlagent.agent.events import Ended, Observed, Started, Wrote
from vlagent.cli.live import SHOWN_LINES, LiveView
from vlagent.cli.terminal import clean, console_for, describe, one_line, to_json
from vlagent.types import Call, Fault, ImageRef, Observation, Source, StopReason, Trajectory, Turn

EVIL = "\x1b[2J\x1b]0;owned\x07 red \x9b31m \u202eabc \x08\x08 [bold]x[/bold] :smile:"


@pytest.mark.parametrize(
    "character", ["\x1b", "\x07", "\x08", "\r", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b", "\x00"]
)
def test_control_characters_never_reach_a_terminal(character: str) -> None:
    assert character not in clean(f"a{character}b")
    assert character not in to_json({"a": character})
    assert json.loads(to_json({"a": character})) == {"a": character}


def test_ordinary_text_of_all_scripts_stays_as_it_is() -> None:
    text = "line one\n\tÅngström 港 नमस्ते مرحبا 👩‍👩‍👧"
    assert clean(text) == text
    assert json.loads(to_json([text])) == [text]


def test_one_line_is_one_line() -> None:
    assert one_line("a\nb\r\n  c") == "a b c"


def test_a_lone_surrogate_can_be_printed_as_json() -> None:
    to_json({"a": "\ud800"}).encode("utf-8")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (Source(title="Report", file="/a/b.pdf", page=3), "Report  /a/b.pdf, page 3"),
        (Source(title="Page", url="https://e.org/x"), "Page  https://e.org/x"),
        (Source(title="https://e.org/x", url="https://e.org/x"), "https://e.org/x"),
        (Source(title="Only a title"), "Only a title"),
    ],
)
def test_a_source_names_its_page_or_link(source: Source, line: str) -> None:
    assert describe(source) == line


def view() -> tuple[LiveView, io.StringIO]:
    stream = io.StringIO()
    return LiveView(console_for(stream)), stream


def test_nothing_is_shown_before_the_first_turn() -> None:
    live, stream = view()
    live(Started("s", 0, 0))
    live(Ended("s", 0, 0, Trajectory(sample_id="s", stop=StopReason.MODEL_FAILURE)))
    assert stream.getvalue() == ""


def test_thought_call_and_observation_are_shown_in_order() -> None:
    live, stream = view()
    call = Call(name="image_crop", arguments={"bbox": [1, 2, 3, 4]})
    turn = Turn(text="x", think="Look closer.", call=call, repairs=("fenced",))
    live(Wrote("s", 0, 0, turn))
    crop = ImageRef(path="/p/photo.png", width=8, height=9, box=(0, 0, 8, 9))
    seen = Observation(text="Here it is.", images=(crop,), fault=Fault.MODEL)
    live(Observed("s", 0, 0, turn.model_copy(update={"observation": seen})))
    text = stream.getvalue()
    parts = [
        "Turn 1",
        "fenced",
        "Look closer.",
        'image_crop {"bbox": [1, 2, 3, 4]}',
        "Here it is.",
        "8 x 9  /p/photo.png",
    ]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)


def test_what_a_model_or_page_wrote_cannot_drive_the_terminal() -> None:
    live, stream = view()
    turn = Turn(text=EVIL, think=EVIL, call=Call(name=EVIL, arguments={EVIL: EVIL}))
    live(Wrote("s", 0, 0, turn))
    live(Observed("s", 0, 0, turn.model_copy(update={"observation": Observation(text=EVIL)})))
    text = stream.getvalue()
    assert not any(character in text for character in "\x1b\x07\x08\x9b\u202e")
    assert "[bold]x[/bold] :smile:" in text


def test_a_long_observation_is_cut_and_says_so() -> None:
    live, stream = view()
    seen = Observation(text="\n".join(f"row {i}" for i in range(SHOWN_LINES + 5)))
    live(Observed("s", 0, 0, Turn(text="x", observation=seen)))
    assert "… 5 more lines" in stream.getvalue()


def test_on_a_terminal_a_wrapped_observation_stays_beside_its_bar() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, no_color=True, width=40, markup=False, highlight=False)
    live = LiveView(console)
    live(Observed("s", 0, 0, Turn(text="x", observation=Observation(text="many words " * 20))))
    live.pause()
    shown = [line for line in stream.getvalue().splitlines() if "many" in line]
    assert len(shown) > 3
    assert all("│" in line for line in shown)
