"""The one parser: what a model wrote -> a canonical action, its repairs, and whether the form was right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlagent.chat.base import NativeCall
from vlagent.render.dialects import Dialect, ImageKind
from vlagent.render.prompts import ToolSpec
from vlagent.tools.base import Arguments, Tool
from vlagent.types import Call, FinishReason


@dataclass(frozen=True)
class Parsed:
    """What one turn says. Exactly one of `call`, `answer`, `error` is set."""

    think: str | None = None
    call: Call | None = None
    """Canonical: `bbox` four floats 0-1000 with x1 < x2, y1 < y2; `image_index` the canonical index."""
    arguments: Arguments | None = None
    """The validated model of `call.arguments`, for `Tool.run`."""
    answer: str | None = None
    error: str | None = None
    """One line for the model: what was wrong and what is allowed."""
    repairs: tuple[str, ...] = ()
    format_ok: bool = False
    native_id: str | None = None


def spec_of(tool: Tool) -> ToolSpec:
    """What a dialect tells a model about a tool."""
    return ToolSpec(tool.name, tool.description, tool.arguments.model_json_schema())


def scrub(text: str) -> str:
    """Model text without lone surrogates, so that it can be encoded and stored. Apply to `reply.text` before use."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def parse(
    text: str,
    finish_reason: FinishReason,
    dialect: Dialect,
    tools: Mapping[str, Tool],
    kinds: Sequence[ImageKind],
    native_calls: Sequence[NativeCall] = (),
) -> Parsed:
    """Read one turn. Never raises on model text. `kinds` are those of the pictures in the context so far."""
    raise NotImplementedError
