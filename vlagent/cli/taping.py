"""`--record DIR` and `--replay DIR`: every answer of the network kept, or played back with the network cut."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vlagent.chat.base import ChatModel
from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.search.cache.tape import Tape

_LOCAL = ("toy:", "scripted:", "local:", "shipped:")
"""Models that need no network play themselves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two options; at most one can be given."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--record", type=Path, metavar="DIR", help="keep every answer of the network in DIR")
    either.add_argument("--replay", type=Path, metavar="DIR", help="play a recording; nothing is connected to")


def open_tape(args: argparse.Namespace) -> Tape | None:
    """The recording that is to be made or played. Raises `UserError`."""
    if not (args.record or args.replay):
        return None
    from vlagent.search.cache.tape import Tape

    return Tape(args.record or args.replay, "record" if args.record else "replay")


def taped(tape: Tape | None, role: str, name: str | None, opened: Callable[[], ChatModel]) -> ChatModel:
    """The model as the tape hears it; in a replay a model over HTTP is not opened at all."""
    if tape is None or (name and name.startswith(_LOCAL)):
        return opened()
    from vlagent.search.cache.taped import Absent, TapedChat

    if tape.mode == "record":
        return TapedChat(tape, opened(), role)
    if not name:
        raise UserError(f"--replay {tape.folder}: name the model that was recorded (--model)")
    return TapedChat(tape, Absent(name), role)
