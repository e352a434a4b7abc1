"""`--confirm`: a person allows, edits, refuses or stops each call before it runs."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from vlagent.agent.hooks import Allow, Decision, Edit, Refuse, Stop, check_edit
from vlagent.cli.live import LiveView, call_line
from vlagent.errors import UserError
from vlagent.tools.base import Tool
from vlagent.types import Call, Sample

CHOICES = "[a]llow  [e]dit  [r]efuse  [s]top"
ReadLine = Callable[[], Awaitable[str | None]]


class Confirm:
    """A `CallHook` that asks on the terminal. The end of the input stops the episode."""

    def __init__(
        self, console: Console, tools: Mapping[str, Tool], live: LiveView, read: ReadLine | None = None
    ) -> None:
        self.console = console
        self.tools = tools
        self.live = live
        self.read = read or StdinLines().read

    async def __call__(self, call: Call, sample: Sample, turn_index: int) -> Decision:  # noqa: ARG002
        """Ask until there is a decision."""
        self.live.pause()
        while True:
            self.console.print(Text.assemble("  ? ", (CHOICES, "bold")), end=" > ")
            line = await self.read()
            if line is None:
                self.console.print()  # the end of the input leaves the cursor behind the question
            word = "s" if line is None else line.strip().lower()
            if word in ("", "a", "allow", "y", "yes"):
                return Allow()
            if word in ("s", "stop", "q", "quit"):
                return Stop("stopped at the confirmation")
            if word in ("r", "refuse", "n", "no"):
                reason = await self._ask("Reason for the model (empty for none)")
                return Refuse(reason or "The user refused this call.")
            if word in ("e", "edit") and (edited := await self._edit(call)):
                return edited

    async def _edit(self, call: Call) -> Edit | None:
        """The edited call, or None to be asked again."""
        text = await self._ask(f"New arguments of {call.name} as JSON (empty keeps them)")
        try:
            arguments = json.loads(text) if text else call.arguments
            if not isinstance(arguments, dict):
                raise UserError("arguments are a JSON object")
            edit = Edit(Call(name=call.name, arguments=arguments), by="user")
            check_edit(edit, self.tools)
        except (json.JSONDecodeError, UserError) as error:
            self.console.print(Text(f"  {error}", style="yellow"))
            return None
        self.console.print(call_line(edit.call))
        return edit

    async def _ask(self, question: str) -> str:
        self.console.print(Text(f"  {question}"), end=" > ")
        return (await self.read() or "").strip()


class StdinLines:
    """Lines of the standard input, read in a thread of its own so that Ctrl-C is noticed while we wait."""

    def __init__(self) -> None:
        self._rest = b""

    async def read(self) -> str | None:
        """The next line, or None at the end."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()

        def wait() -> None:
            line = self._next_line()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, answer, line)

        threading.Thread(target=wait, daemon=True).start()
        return await answer

    def _next_line(self) -> str | None:
        # os.read and not sys.stdin: a thread that holds sys.stdin's lock would break the interpreter's shutdown
        while b"\n" not in self._rest:
            chunk = os.read(0, 4096)
            if not chunk:
                break
            self._rest += chunk
        line, newline, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "replace") if line or newline else None


def _resolve(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)
