"""A model that plays given lines, or a function of the request: for tests, demonstrations and replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import ServiceError
from vlagent.types import Usage

Script = Callable[[ChatRequest], "str | ChatReply"]


class Scripted:
    """Line n answers the request with n assistant messages before it, so that many episodes can share one.

    A `ServiceError` among the lines is raised in its place. Past the last line a `ServiceError` says so.
    """

    def __init__(self, script: Sequence[str | ChatReply | ServiceError] | Script, name: str = "scripted") -> None:
        self.name = name
        self._script = script

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The line of this turn."""
        said = self._script(request) if callable(self._script) else self._line(request)
        if isinstance(said, str):
            return ChatReply(text=said, usage=Usage(calls=1))
        return said

    def _line(self, request: ChatRequest) -> str | ChatReply:
        assert not callable(self._script)
        turn = sum(message.role == "assistant" for message in request.messages)
        if turn >= len(self._script):
            raise ServiceError(self.name, f"the script has {len(self._script)} lines, this is turn {turn + 1}")
        line = self._script[turn]
        if isinstance(line, ServiceError):
            raise line
        return line
