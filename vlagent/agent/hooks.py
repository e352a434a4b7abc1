"""Before each call a hook decides: allow, edit, refuse or stop (`ask --confirm`, budgets, tests)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from vlagent.errors import UserError, first_problem
from vlagent.tools.base import Arguments, Tool
from vlagent.types import Call, Sample


@dataclass(frozen=True)
class Allow:
    """Run the call as the model wrote it."""


@dataclass(frozen=True)
class Edit:
    """Run another call in its place. The turn records who changed it and is never trained on."""

    call: Call
    """In canonical form (coordinates 0-1000, canonical image index)."""
    by: str
    """'user' or the hook's name."""


@dataclass(frozen=True)
class Refuse:
    """Do not run the call; the model is told the reason and goes on. Nobody's fault."""

    reason: str


@dataclass(frozen=True)
class Stop:
    """End the episode (`stopped_by_user`)."""

    reason: str = ""


Decision = Allow | Edit | Refuse | Stop


class CallHook(Protocol):
    """Asked before every valid call. The time it takes does not count towards the episode's limit."""

    async def __call__(self, call: Call, sample: Sample, turn_index: int) -> Decision: ...


def check_edit(edit: Edit, tools: Mapping[str, Tool]) -> Arguments:
    """The validated arguments of an edited call; `UserError` names what is wrong with it."""
    if edit.call.name not in tools:
        raise UserError(f"edited call: no tool {edit.call.name!r}; there are {', '.join(tools)}")
    try:
        return tools[edit.call.name].arguments.model_validate(edit.call.arguments)
    except ValidationError as error:
        raise UserError(f"edited call: {edit.call.name} {first_problem(error).line()}") from None
