"""`--help` of every verb says what each option does."""

from __future__ import annotations

import argparse

import pytest

from vlagent.cli.ask import EXIT
from vlagent.cli.main import VERBS, build_parser, main

FOR_OTHERS = {"stage0", "sft", "toy"}
"""Their options are tested beside them."""


def options_of(verb: str) -> list[argparse.Action]:
    verbs = next(action for action in build_parser([verb])._actions if isinstance(action, argparse._SubParsersAction))
    return list(verbs.choices[verb]._actions)


@pytest.mark.parametrize("verb", sorted(set(VERBS) - FOR_OTHERS))
def test_every_option_has_its_line(verb: str) -> None:
    assert [action.dest for action in options_of(verb) if not action.help] == []


def test_a_tool_named_in_the_help_of_ask_and_eval_is_one_that_can_be_given() -> None:
    for verb in ("ask", "eval"):
        (tools,) = [action.help or "" for action in options_of(verb) if action.dest == "tools"]
        assert "image_crop" in tools
        assert "default: crop" not in tools


def test_ask_says_what_its_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["ask", "--help"])
    said = capsys.readouterr().out.partition("Exit code:")[2]
    for code in {*EXIT.values(), 2, 4}:
        assert f"{code} " in said
