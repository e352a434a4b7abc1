"""Dialects: one environment, several wire forms. A dialect is data; the methods are the same for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vlagent.chat.base import ChatReply, ImagePart, Message
from vlagent.render.prompts import Prompts, ToolSpec
from vlagent.types import Call, Observation, Turn

ImageKind = Literal["input", "crop", "thumbnail"]
"""How a picture entered the context."""


def new_kind(call: Call | None) -> ImageKind:
    """The kind of the pictures that an observation of this call adds to the context."""
    return "thumbnail" if call and call.name == "image_search" else "crop"


@dataclass(frozen=True)
class Dialect:
    """How one family of models writes calls and reads results."""

    name: str
    native: bool = False
    """Calls travel as the endpoint's own tool calls, not as text."""
    stop: tuple[str, ...] = ("</tool_call>", "</answer>")
    specials: tuple[str, ...] = ()
    """The tokenizer's own special tokens, to be neutralised in outside text: `dataclasses.replace(d, specials=...)`."""

    def system_prompt(
        self, tools: Sequence[ToolSpec], prompts: Prompts | None, max_turns: int, manifest: str | None = None
    ) -> str:
        """The system message: the user's own (`prompts.system`), else the manifest's (`sample.system_prompt`), else ours."""
        raise NotImplementedError

    def question(
        self, text: str, images: Sequence[ImagePart], prompts: Prompts | None = None, context: str = ""
    ) -> Message:
        """The first user message. `context` is retrieved text (workflow rag). Outside text is neutralised here."""
        raise NotImplementedError

    def assistant(self, turn: Turn) -> Message:
        """A canonical turn in this dialect's wire form (scripted policies, demonstrations, round trips)."""
        raise NotImplementedError

    def said(self, reply: ChatReply) -> Message:
        """A model's reply as it stands in the history: tokens kept, a closing tag eaten by a stop string restored,
        only the first of parallel native calls, native arguments valid JSON."""
        raise NotImplementedError

    def observation(
        self,
        observation: Observation,
        call: Call | None,
        images: Sequence[ImagePart],
        kinds_so_far: Sequence[ImageKind],
        native_id: str | None = None,
    ) -> tuple[Message, ...]:
        """The messages that answer a turn. `images` are those of `observation.images`; `kinds_so_far` are the kinds of
        the pictures in the context BEFORE this observation. Outside text is neutralised here."""
        raise NotImplementedError

    def tool_schemas(self, tools: Sequence[ToolSpec]) -> tuple[dict[str, Any], ...]:
        """Schemas for `ChatRequest.tools`; empty unless native."""
        raise NotImplementedError

    def number(self, kinds: Sequence[ImageKind]) -> list[int | None]:
        """The wire number of each picture of the context, by canonical index; None is not addressable."""
        raise NotImplementedError


DIALECTS: Mapping[str, Dialect] = {
    name: Dialect(name) for name in ("default", "mars-released", "mars-paper", "openai-tools")
}


def get_dialect(name: str) -> Dialect:
    """By name; raises `UserError` that lists the names."""
    raise NotImplementedError
