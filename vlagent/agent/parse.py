"""The one parser: what a model wrote -> a canonical action, its repairs, and whether the form was right.

Lenient in what is executed, strict in what is rewarded: every leniency is named in `repairs`, and all but
`closing_tag` (eaten by a stop string) cost the format. Whatever the text, the result is a `Parsed`.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vlagent.agent.parse_call import CallReader
from vlagent.agent.parse_json import WrongCall, clean_text, read_json
from vlagent.chat.base import NativeCall
from vlagent.render.dialects import Dialect, ImageKind
from vlagent.render.prompts import ToolSpec
from vlagent.render.tags import Block, Written, cut, holds_tag
from vlagent.tools.base import Arguments, Tool
from vlagent.types import Call, FinishReason

FREE = frozenset({"closing_tag"})
"""Repairs that do not cost the format."""
_CUT = "Your turn was cut off at its token limit. Think more briefly and finish with one complete action."
_FILTERED = "Your turn was stopped by a content filter. Write it in other words."
_NOTHING = "No action found. A turn is one thought, then either one tool call or one answer, each in its tags."
_SEVERAL = "More than one action found. A turn is one thought, then exactly one tool call or one answer."
_EMPTY_ANSWER = "The answer is empty. Write the answer itself between the answer tags, or call a tool."
_TAGGED_ANSWER = "The answer holds another protocol tag. Write only the answer between the answer tags."
_TEXT_CALL = "A call was written as text. Call tools through the tool interface, or reply with the answer alone."
_NO_REPLY = "The message is empty. Call a tool, or reply with the answer."
_INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
_BLANK = string.whitespace + "\u00a0\u3000" + _INVISIBLE


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
    return clean_text(text)


def parse(
    text: str,
    finish_reason: FinishReason,
    dialect: Dialect,
    tools: Mapping[str, Tool],
    kinds: Sequence[ImageKind],
    native_calls: Sequence[NativeCall] = (),
) -> Parsed:
    """Read one turn. Never raises on model text. `kinds` are those of the pictures in the context so far."""
    reader = CallReader(dialect, tools, kinds)
    read = _read_native if dialect.native else _read_text
    written = cut(scrub(text))
    native_id = native_calls[0].id if native_calls and dialect.native else None
    think = _thought(written, dialect, native_calls)
    try:
        _refuse_unfinished(finish_reason)
        parsed = read(written, reader, native_calls)
    except WrongCall as wrong:
        return Parsed(think=think, error=str(wrong), native_id=native_id)
    return replace(parsed, think=think, native_id=native_id)


def _refuse_unfinished(finish_reason: FinishReason) -> None:
    if finish_reason == "length":
        raise WrongCall(_CUT)
    if finish_reason == "content_filter":
        raise WrongCall(_FILTERED)


def _thought(written: Written, dialect: Dialect, native_calls: Sequence[NativeCall]) -> str | None:
    """The first thought; beside a native call, the message's text is the thought."""
    if written.thoughts:
        return written.thoughts[0].body.strip()
    if dialect.native and native_calls:
        return written.outside.strip() or None
    return None


def _read_text(written: Written, reader: CallReader, _: Sequence[NativeCall]) -> Parsed:
    """A turn of a text dialect."""
    if not written.actions:
        raise WrongCall(_NOTHING)
    if len(written.actions) > 1:
        raise WrongCall(_SEVERAL)
    action = written.actions[0]
    reader.repairs += _form_repairs(written, reader.dialect)
    parsed = _answer(action, reader) if action.tag == "answer" else _call(action, reader)
    repairs = tuple(reader.repairs)
    clean = FREE.issuperset(repairs) and not holds_tag(written.thoughts[0].body)
    return replace(parsed, repairs=repairs, format_ok=clean)


def _form_repairs(written: Written, dialect: Dialect) -> list[str]:
    """Everything about the tags that is not as the dialect writes it."""
    thoughts, action = written.thoughts, written.actions[0]
    found = {
        "text_outside": bool(written.outside.strip()),
        "no_think": not thoughts,
        "extra_think": len(thoughts) > 1,
        "late_think": bool(thoughts) and not written.blocks[0].is_thought,
        "think_tag": bool(thoughts) and thoughts[0].tag != dialect.think,
        "unopened_think": bool(thoughts) and not thoughts[0].opened,
        "unclosed_think": bool(thoughts) and not thoughts[0].closed,
        "empty_think": bool(thoughts) and not thoughts[0].body.strip(_BLANK),
        "tag_spelling": not all(block.exact for block in written.blocks),
        "closing_tag": not action.closed,
    }
    return [name for name, here in found.items() if here]


def _answer(action: Block, reader: CallReader) -> Parsed:
    answer = _without_partial_close(action, reader).strip().strip(_INVISIBLE).strip()
    if not answer:
        raise WrongCall(_EMPTY_ANSWER)
    if holds_tag(answer):
        raise WrongCall(_TAGGED_ANSWER)
    return Parsed(answer=answer)


def _call(action: Block, reader: CallReader) -> Parsed:
    value = read_json(_without_partial_close(action, reader), reader.repairs)
    call, arguments = reader.read(value)
    return Parsed(call=call, arguments=arguments)


def _without_partial_close(action: Block, reader: CallReader) -> str:
    """The body without the first letters of its closing tag, where the text ends in the middle of that tag."""
    close = f"</{action.tag}>"
    body = action.body.rstrip()
    part = next((close[:size] for size in range(len(close) - 1, 1, -1) if body.endswith(close[:size])), "")
    if action.closed or not part:
        return action.body
    reader.repairs.append("partial_tag")
    return body.removesuffix(part)


def _read_native(written: Written, reader: CallReader, native_calls: Sequence[NativeCall]) -> Parsed:
    """A turn of a native dialect: the first native call, or the message as the answer. The thought is optional."""
    if not native_calls:
        return _native_answer(written, reader)
    if len(native_calls) > 1:
        reader.repairs.append("parallel_calls")
    first = native_calls[0]
    value = read_json(first.arguments, reader.repairs) if first.arguments.strip() else None
    call, arguments = reader.read_parts(first.name, value)
    repairs = tuple(reader.repairs)
    clean = not repairs and not written.actions and _thinks_plainly(written) and not holds_tag(written.outside)
    return Parsed(call=call, arguments=arguments, repairs=repairs, format_ok=clean)


def _thinks_plainly(written: Written) -> bool:
    """One thought at most, without a tag inside."""
    return len(written.thoughts) <= 1 and not any(holds_tag(thought.body) for thought in written.thoughts)


def _native_answer(written: Written, reader: CallReader) -> Parsed:
    """The whole message; an answer tag that a model cannot leave off is taken away, at the price of the format."""
    if any(action.tag == "tool_call" for action in written.actions):
        raise WrongCall(_TEXT_CALL)
    if len(written.actions) > 1:
        raise WrongCall(_SEVERAL)
    if not written.actions:
        return _whole_answer(written)
    parsed = _answer(written.actions[0], reader)
    return replace(parsed, repairs=("answer_tag", *reader.repairs))


def _whole_answer(written: Written) -> Parsed:
    answer = written.outside.strip().strip(_INVISIBLE).strip()
    if not answer:
        raise WrongCall(_NO_REPLY)
    if holds_tag(answer):
        raise WrongCall(_TAGGED_ANSWER)
    return Parsed(answer=answer, format_ok=_thinks_plainly(written))
