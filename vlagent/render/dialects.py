"""Dialects: one environment, several wire forms. A dialect is data; the methods are the same for all of them.

A text dialect writes calls and results as tagged text; a native one as an endpoint's own tool calls and tool messages.
Text from outside is neutralised here, once, on its way into a message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vlagent.chat.base import ChatReply, ImagePart, Message, NativeCall, Part, TextPart
from vlagent.errors import UserError
from vlagent.randomness import seed_of
from vlagent.render import instructions as ours
from vlagent.render import layout
from vlagent.render.neutralise import break_tokens, neutralise
from vlagent.render.prompts import Prompts, ToolSpec, fill
from vlagent.render.tags import missing_close
from vlagent.render.wire import WireTool, describe
from vlagent.types import Call, Observation, Turn

ImageKind = Literal["input", "crop", "thumbnail"]
"""How a picture entered the context."""
EVERY_KIND: frozenset[ImageKind] = frozenset({"input", "crop", "thumbnail"})


def new_kind(call: Call | None) -> ImageKind:
    """The kind of the pictures that an observation of this call adds to the context."""
    return "thumbnail" if call and call.name == "image_search" else "crop"


@dataclass(frozen=True, eq=False)
class Dialect:
    """How one family of models writes calls and reads results."""

    name: str
    think: str = "think"
    """Tag of the thought."""
    tools: Mapping[str, WireTool] = field(default_factory=dict)
    """Canonical name -> wire form; a tool that is not listed is written canonically."""
    scale: float = 1000.0
    """The coordinate of the right and bottom edge."""
    first: int = 0
    """The number of the first picture."""
    counted: frozenset[ImageKind] = EVERY_KIND
    """Kinds of pictures that have a number."""
    announces: bool = True
    """Messages say the number of each picture."""
    words_results: bool = False
    """Crops and image searches are put in the dialect's own words (one line; titles and thumbnails in turn), because a
    tool's text speaks of canonical numbers and coordinates."""
    native: bool = False
    """Calls travel as the endpoint's own tool calls, not as text."""
    stop: tuple[str, ...] = ("</tool_call>", "</answer>")
    specials: tuple[str, ...] = ()
    """The tokenizer's own special tokens, to be neutralised too: `dataclasses.replace(dialect, specials=...)`."""

    def system_prompt(
        self, tools: Sequence[ToolSpec], prompts: Prompts | None, max_turns: int, manifest: str | None = None
    ) -> str:
        """The user's own (`prompts.system`), else the data set's (`sample.system_prompt`), else ours.

        A data set's prompt knows no signatures: the section that lists the tools follows it, as in the released runs.
        """
        section = self._tools_section(tools, prompts)
        if prompts and prompts.system is not None:
            return fill(prompts.system, tools=section, max_turns=str(max_turns))
        if manifest is not None:
            manifest = break_tokens(manifest)
            return f"{manifest}\n\n{section}" if section and "<tools>" not in manifest else manifest
        return self._own_prompt(tools, section, max_turns)

    def tool_schemas(self, tools: Sequence[ToolSpec], prompts: Prompts | None = None) -> tuple[dict[str, Any], ...]:
        """Schemas for `ChatRequest.tools`; empty unless native."""
        return tuple(self._signatures(tools, prompts)) if self.native else ()

    def question(
        self,
        text: str,
        images: Sequence[ImagePart],
        prompts: Prompts | None = None,
        context: str = "",
        instruction: str = "",
    ) -> Message:
        """The first user message: the pictures, then the text.

        `context` is retrieved text (workflow rag). `instruction` is the data set's own: like its system prompt it may
        name the protocol's tags, and can open no turn.
        """
        template = ours.QUESTION_WITH_CONTEXT if context else ours.QUESTION
        if prompts and prompts.question is not None:
            template = prompts.question
        question = "\n".join(part for part in (self._safe(text), break_tokens(instruction)) if part)
        words = fill(template, question=question, context=self._safe(context))
        parts = self._pictures(images, self.number(["input"] * len(images)))
        return Message("user", _trimmed([*parts, TextPart(f"\n{words}")]))

    def assistant(self, turn: Turn, kinds: Sequence[ImageKind] = ()) -> Message:
        """A canonical turn in this dialect's wire form (scripted policies, demonstrations, round trips).

        `kinds` are those of the pictures in the context; without them every picture counts. Raises `UserError` for a
        call that the dialect cannot write. A turn without an action is its text as it was.
        """
        if turn.call is None and turn.answer is None:
            return Message("assistant", (TextPart(turn.text),))
        if self.native:
            return self._native_turn(turn, kinds)
        action = f"<answer>{turn.answer}</answer>"
        if turn.call is not None:
            # "<\/" is "</" to JSON, and neither a closing tag nor a stop string.
            wire = json.dumps(self.to_wire(turn.call, kinds), ensure_ascii=False).replace("</", "<\\/")
            action = f"<tool_call>\n{wire}\n</tool_call>"
        return Message("assistant", (TextPart(f"<{self.think}>{turn.think or ''}</{self.think}>\n{action}"),))

    def said(self, reply: ChatReply) -> Message:
        """A model's reply as it stands in the history, with the tokens that it was sampled as.

        A closing tag eaten by a stop string is restored; of parallel native calls only the first is kept, for each
        call in a history needs its result, and its arguments are made valid JSON, for servers read them again.
        """
        if self.native:
            calls = tuple(replace(call, arguments=_valid_json(call.arguments)) for call in reply.calls[:1])
            parts = (TextPart(reply.text),) if reply.text or not calls else ()
            return Message("assistant", parts, calls, tokens=reply.tokens)
        text = reply.text + (missing_close(reply.text) if reply.finish_reason == "stop" else "")
        return Message("assistant", (TextPart(text),), tokens=reply.tokens)

    def observation(
        self,
        observation: Observation,
        call: Call | None,
        images: Sequence[ImagePart],
        kinds_so_far: Sequence[ImageKind],
        native_id: str | None = None,
        notice: str = "",
    ) -> tuple[Message, ...]:
        """The messages that answer a turn.

        `images` are those of `observation.images`, `kinds_so_far` the kinds of the pictures in the context BEFORE this
        observation, `notice` words of the environment itself (the next turn must answer) that follow the result.
        """
        kinds = [*kinds_so_far, *[new_kind(call)] * len(images)]
        numbers = self.number(kinds)[len(kinds_so_far) :]
        tail = f"\n{notice}" if notice else ""
        text = self._result_text(observation, call)
        pictures = self._pictures(images, numbers, _notes(observation, images))
        if self.native:
            return _native_messages(text, pictures, native_id, tail)
        body = [TextPart(text), *pictures]
        if self._words_result(observation) and call is not None and call.name == "image_search" and observation.hits:
            titles = [layout.one_line(self._safe(hit.source.title)) for hit in observation.hits]
            body = layout.interleaved(observation.hits, titles, images)
        framed = [TextPart("<tool_response>\n"), *body, TextPart(f"\n</tool_response>{tail}")]
        return (Message("user", layout.joined(framed)),)

    def number(self, kinds: Sequence[ImageKind]) -> list[int | None]:
        """The wire number of each picture of the context, by canonical index; None is not addressable."""
        numbers: list[int | None] = []
        following = self.first
        for kind in kinds:
            counts = kind in self.counted
            numbers.append(following if counts else None)
            following += counts
        return numbers

    def wire(self, name: str) -> WireTool:
        """The wire form of a canonical tool."""
        return self.tools.get(name) or WireTool(name)

    def to_wire(self, call: Call, kinds: Sequence[ImageKind] = ()) -> dict[str, Any]:
        """A canonical call as `{"name": ..., "arguments": {...}}` in this dialect."""
        wire = self.wire(call.name)
        for name, value in wire.fixed.items():
            if call.arguments.get(name, value) != value:
                raise UserError(f"{name} = {call.arguments[name]!r}: the dialect {self.name} always takes {value!r}")
        values = {name: value for name, value in call.arguments.items() if name not in wire.fixed}
        arguments = {wire.argument(name): self._to_wire_value(name, value, kinds) for name, value in values.items()}
        return {"name": wire.name, "arguments": {**arguments, **dict.fromkeys(wire.extra, "region")}}

    def _to_wire_value(self, name: str, value: Any, kinds: Sequence[ImageKind]) -> Any:
        if name == "bbox":
            return [_plain(side * self.scale / 1000.0) for side in value]
        if name != "image_index":
            return value
        number = self.number(kinds)[value] if value < len(kinds) else value + self.first
        if number is None:
            raise UserError(f"image_index = {value}: the dialect {self.name} has no number for a {kinds[value]}")
        return number

    def _own_prompt(self, tools: Sequence[ToolSpec], section: str, max_turns: int) -> str:
        if not tools:
            turn = ours.TURN_DIRECT_NATIVE if self.native else fill(ours.TURN_DIRECT, think=self.think)
            return "\n\n".join((ours.ROLE, turn, ours.ANSWER))
        example = json.dumps(self._example(tools))
        turn = ours.TURN_NATIVE if self.native else fill(ours.TURN, think=self.think, example=example)
        pictures = fill(ours.IMAGES_ANNOUNCED if self.announces else ours.IMAGES_SILENT, **self._words())
        images = f"# Pictures\n{pictures} {fill(ours.COORDINATES, **self._words())}"
        limit = f"# Limits\n{fill(ours.LIMIT, max_turns=str(max_turns))} {ours.ANSWER}"
        return "\n\n".join(part for part in (ours.ROLE, turn, section, images, ours.ADVICE, limit) if part)

    def _example(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        if any(spec.name == "image_crop" for spec in tools):
            box = {"bbox": [250.0, 125.0, 500.0, 375.0], "image_index": 0}
            return self.to_wire(Call(name="image_crop", arguments=box))
        name = self.wire(tools[0].name).name
        return {"name": name, "arguments": {"...": "..."}}

    def _words(self) -> dict[str, str]:
        which = "including thumbnails" if self.counted == EVERY_KIND else "not counting thumbnails of search results"
        scale = f"thousandths (0 to {self.scale:g})" if self.scale > 1 else "fractions (0.0 to 1.0)"
        none, full = (f"{_plain(v)}" if self.scale > 1 else f"{v:.1f}" for v in (0.0, self.scale))
        return {"first": str(self.first), "which": which, "scale": scale, "none": none, "full": full}

    def _tools_section(self, tools: Sequence[ToolSpec], prompts: Prompts | None) -> str:
        if self.native or not tools:
            return ""
        lines = (json.dumps(signature, ensure_ascii=False) for signature in self._signatures(tools, prompts))
        return fill(ours.TOOLS, signatures="\n".join(lines))

    def _signatures(self, tools: Sequence[ToolSpec], prompts: Prompts | None) -> list[dict[str, Any]]:
        words = self._words()
        about = {"bbox": fill(ours.BOX, **words), "image_index": fill(ours.INDEX, **words)}
        told = prompts.tools if prompts else {}
        signatures = []
        for spec in tools:
            wire = self.wire(spec.name)
            description = told.get(spec.name) or told.get(wire.name) or wire.description or spec.description
            signatures.append(describe(spec, wire, about, description))
        return signatures

    def _pictures(
        self, images: Sequence[ImagePart], numbers: Sequence[int | None], notes: Sequence[str] = ()
    ) -> list[Part]:
        return layout.numbered(images, numbers, notes) if self.announces else layout.unnumbered(images)

    def _native_turn(self, turn: Turn, kinds: Sequence[ImageKind]) -> Message:
        if turn.call is None:
            return Message("assistant", (TextPart(turn.answer or ""),))
        wire = self.to_wire(turn.call, kinds)
        arguments = json.dumps(wire["arguments"], ensure_ascii=False)
        call_id = turn.native_id or f"call_{seed_of(wire['name'], arguments):016x}"
        thought = (TextPart(turn.think),) if turn.think else ()
        return Message("assistant", thought, (NativeCall(call_id, wire["name"], arguments),))

    def _result_text(self, observation: Observation, call: Call | None) -> str:
        text = self._safe(observation.text)
        if observation.fault is not None:
            return f"Error: {layout.one_line(text).removeprefix('Error: ')}"
        if not self._words_result(observation) or call is None:
            return text
        return ours.RESULT_LINES.get(call.name, text)

    def _words_result(self, observation: Observation) -> bool:
        return self.words_results and not observation.own_words

    def _safe(self, text: str) -> str:
        return neutralise(text, self.specials)


def _native_messages(text: str, pictures: list[Part], native_id: str | None, tail: str) -> tuple[Message, ...]:
    """A tool message holds text only, so pictures follow in a user message. Without a call to answer, all is user."""
    if native_id is None:
        return (Message("user", layout.joined([TextPart(text), *pictures, TextPart(tail)])),)
    if not pictures:
        return (Message("tool", (TextPart(text + tail),), call_id=native_id),)
    follow = Message("user", _trimmed([*pictures, TextPart(tail)]))
    return (Message("tool", (TextPart(text),), call_id=native_id), follow)


def _notes(observation: Observation, images: Sequence[ImagePart]) -> list[str]:
    """Which search result each picture belongs to, where the observation says so."""
    shown = layout.thumbnails_of(observation.hits, images)
    notes = [f"result {at + 1}" for at, image in enumerate(shown) if image is not None]
    return notes if len(notes) == len(images) else []


def _trimmed(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Joined, and without a line feed before the first word of the message."""
    first, *rest = layout.joined(parts)
    if isinstance(first, TextPart):
        first = TextPart(first.text.lstrip("\n"))
    return layout.joined([first, *rest])


def _plain(number: float) -> int | float:
    """300.0 is written 300."""
    return int(number) if number == int(number) else number


def _valid_json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps({"unreadable": text})
    return text if isinstance(value, dict) else json.dumps({"unreadable": text})


DIALECTS: Mapping[str, Dialect] = {
    "default": Dialect("default"),
    "mars-released": Dialect(
        "mars-released",
        think="thinking",
        tools={
            "text_search": WireTool("text_search_tool"),
            "image_search": WireTool("image_search_tool", fixed={"image_index": 0}, description=ours.FIRST_ONLY),
            "image_crop": WireTool(
                "image_zoom_in_tool",
                arguments={"bbox": "bbox_2d", "image_index": "img_idx"},
                extra={"label": "What the region shows, in a few words."},
            ),
        },
        announces=False,
        words_results=True,
    ),
    "mars-paper": Dialect(
        "mars-paper",
        tools={
            "text_search": WireTool("web_search"),
            "image_search": WireTool("image_search", fixed={"image_index": 0}, description=ours.FIRST_ONLY),
            "image_crop": WireTool("crop_image"),
        },
        scale=1.0,
        first=1,
        counted=frozenset({"input", "crop"}),
        announces=False,
        words_results=True,
    ),
    "openai-tools": Dialect("openai-tools", native=True, stop=()),
}


def get_dialect(name: str) -> Dialect:
    """By name; raises `UserError` that lists the names."""
    if name not in DIALECTS:
        raise UserError(f"dialect {name!r}: known are {', '.join(DIALECTS)}")
    return DIALECTS[name]
