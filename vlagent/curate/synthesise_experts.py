"""Episodes that a person wrote, played through the real loop: the turns are theirs, the observations are the tools'.

A file of JSON lines: `{"sample_id": ..., "turns": [text, ...]}`, the text of a turn in the dialect of the run, or
`{"sample_id": ..., "messages": [{"role": "assistant", "content": ...}, ...]}`, of which only the assistant's count.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import UserError
from vlagent.files import iter_jsonl
from vlagent.types import Sample, Usage

GIVE_UP = "The expert's turns end here."
"""A turn without an action: an expert episode without an answer ends by its own rules."""


class Experts:
    """A `ChatModel` that writes what a person wrote for the sample."""

    def __init__(self, turns: dict[str, tuple[str, ...]], name: str) -> None:
        self._turns, self.name = turns, name

    def __contains__(self, sample_id: str) -> bool:
        return sample_id in self._turns

    async def complete(self, request: ChatRequest) -> ChatReply:
        """The turn after those that were played."""
        own = self._turns[str(request.key[1])]
        turn = sum(message.role == "assistant" for message in request.messages)
        return ChatReply(own[turn] if turn < len(own) else GIVE_UP, usage=Usage(calls=1))


def read_experts(path: Path, samples: Sequence[Sample]) -> Experts:
    """Read expert episodes; one for each sample at most. Raises `UserError` that names the line."""
    known = {sample.id for sample in samples}
    turns: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(iter_jsonl(path), 1):
        where = f"{path}:{number}"
        name = line.get("sample_id")
        if name not in known:
            raise UserError(f"{where}: sample_id {name!r} is not among the {len(known)} questions of this run")
        if name in turns:
            raise UserError(f"{where}: a second episode for {name!r}; keep one")
        turns[str(name)] = _turns(line, where)
    if not turns:
        raise UserError(f"{path}: holds no episode")
    return Experts(turns, f"experts:{path.name}")


def _turns(line: dict[str, Any], where: str) -> tuple[str, ...]:
    found = line.get("turns")
    if found is None:
        messages = line.get("messages")
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            raise UserError(f"{where}: turns (a list of texts) or messages (a list of role and content) is expected")
        found = [each.get("content") for each in messages if each.get("role") == "assistant"]
    if not found or not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise UserError(f"{where}: the assistant's turns are expected as texts, one at least")
    return tuple(found)
