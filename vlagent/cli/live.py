"""The live view of an episode: every thought, action and observation as it happens."""

from __future__ import annotations

import json

from rich.console import Console
from rich.status import Status
from rich.text import Text

from vlagent.agent.events import Ended, Event, Observed, Started, Wrote
from vlagent.agent.parse import FREE
from vlagent.cli.terminal import clean
from vlagent.types import Call, Fault, ImageRef, Observation, Turn

SHOWN_LINES = 14
"""Of one observation; the page of the run has it whole."""


class LiveView:
    """A `Watch` that prints. Before the first turn it prints nothing, so that a dead endpoint is one line."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status: Status | None = None

    def __call__(self, event: Event) -> None:
        """Show one event."""
        self.pause()
        if isinstance(event, Wrote):
            self._show_turn(event.index + 1, event.turn)
        elif isinstance(event, Observed) and event.turn.observation:
            self._show_observation(event.turn.observation)
        if isinstance(event, Started | Observed):
            self._wait("thinking")
        elif isinstance(event, Wrote) and event.turn.call:
            self._wait(event.turn.call.name)
        elif isinstance(event, Ended):
            self.pause()

    def pause(self) -> None:
        """Take the waiting mark away (something else is about to be printed)."""
        if self._status:
            self._status.stop()
            self._status = None

    def _wait(self, what: str) -> None:
        if self.console.is_terminal:
            self._status = self.console.status(Text(f"{what} …", style="dim"), spinner="dots")
            self._status.start()

    def _wrapped(self, line: str) -> list[str]:
        """A line as it fits beside the bar; a pipe gets it whole."""
        if not self.console.is_terminal:
            return [line]
        return [part.plain.rstrip() for part in Text(line).wrap(self.console, max(20, self.console.width - 4))] or [""]

    def _show_turn(self, number: int, turn: Turn) -> None:
        notes = [f"repaired: {repair}" for repair in turn.repairs if repair not in FREE]
        if turn.finish_reason == "length":
            notes.append("cut at the token limit")
        self.console.print(
            Text.assemble((f"\nTurn {number}", "bold"), (f"  {', '.join(notes)}" if notes else "", "yellow"))
        )
        if turn.think:
            self.console.print(Text(_indented(turn.think.strip()), style="dim italic"))
        if turn.call:
            self.console.print(call_line(turn.call))
        elif turn.answer is not None:
            self.console.print(Text("  → answer", style="green"))
        else:
            self.console.print(Text(_indented(turn.text.strip() or "(nothing)"), style="dim"))

    def _show_observation(self, seen: Observation) -> None:
        style = {None: "", Fault.MODEL: "yellow", Fault.WORLD: "red"}[seen.fault]
        lines = clean(seen.text).strip().splitlines()
        for line in lines[:SHOWN_LINES]:
            for part in self._wrapped(line):
                self.console.print(Text.assemble("  │ ", (part, style)))
        if len(lines) > SHOWN_LINES:
            self.console.print(Text(f"  │ … {len(lines) - SHOWN_LINES} more lines", style="dim"))
        for image in seen.images:
            self.console.print(Text(f"  │ ▣ {picture_line(image)}", style="cyan"))


def call_line(call: Call) -> Text:
    """A call on one line."""
    arguments = clean(json.dumps(call.arguments, ensure_ascii=False))
    return Text.assemble("  → ", (clean(call.name), "bold cyan"), " ", arguments)


def picture_line(image: ImageRef) -> str:
    """A picture on one line: size, file, region."""
    region = f" [{', '.join(map(str, image.box))}]" if image.box else ""
    return clean(f"{image.width} x {image.height}  {image.path}{region}")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in clean(text).splitlines())
