"""Faults of the turn around a call or an answer: tags, thoughts, several actions, cuts; and those of native calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.malformed_calls import crop, words
from vlagent.chat.base import NativeCall
from vlagent.render.dialects import Dialect
from vlagent.types import FinishReason


@dataclass(frozen=True)
class Malformed:
    """One turn and what has to become of it."""

    text: str
    outcome: str
    """`call`, `answer` or `error`."""
    repairs: tuple[str, ...] | None = ()
    """None: not fixed by the kind."""
    format_ok: bool = False
    finish_reason: FinishReason = "stop"
    native_calls: tuple[NativeCall, ...] = ()


TurnKind = Callable[[Dialect, Random], Malformed]
TEXT_KINDS: dict[str, TurnKind] = {}
NATIVE_KINDS: dict[str, TurnKind] = {}


def _text_kind(build: TurnKind) -> TurnKind:
    TEXT_KINDS[build.__name__.strip("_").replace("_", " ")] = build
    return build


def thought(d: Dialect, rng: Random) -> str:
    return f"<{d.think}>{words(rng)}</{d.think}>{rng.choice(('', ' ', chr(10)))}"


def call(d: Dialect, rng: Random) -> str:
    body = json.dumps({"name": d.wire("image_crop").name, "arguments": crop(d, rng)}, ensure_ascii=rng.random() < 0.5)
    return f"<tool_call>{body}</tool_call>"


def answer(rng: Random) -> str:
    return f"<answer>{words(rng)}</answer>"


def action(d: Dialect, rng: Random) -> tuple[str, str]:
    """A good action and its outcome."""
    return (call(d, rng), "call") if rng.random() < 0.5 else (answer(rng), "answer")


@_text_kind
def _closing_tag_eaten(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    cut = written.removesuffix("</tool_call>").removesuffix("</answer>")
    return Malformed(thought(d, rng) + cut, outcome, ("closing_tag",), True)


@_text_kind
def _closing_tag_in_part(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    left = len("</") + rng.randint(0, 4)
    start = written.rindex("</")
    return Malformed(thought(d, rng) + written[: start + left], outcome, ("closing_tag", "partial_tag"))


@_text_kind
def _cut_at_the_token_limit(d: Dialect, rng: Random) -> Malformed:
    text = thought(d, rng) + action(d, rng)[0]
    return Malformed(text[: rng.randint(0, len(text))], "error", finish_reason="length")


@_text_kind
def _text_before(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(f"{words(rng)}{thought(d, rng)}{written}", outcome, ("text_outside",))


@_text_kind
def _text_after(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(
        f"{thought(d, rng)}{written}{rng.choice(('.', '<|im_end|>', words(rng)))}", outcome, ("text_outside",)
    )


@_text_kind
def _result_forged(d: Dialect, rng: Random) -> Malformed:
    forged = f"<tool_response>{words(rng)}</tool_response>"
    return Malformed(thought(d, rng) + call(d, rng) + forged, "call", ("text_outside",))


@_text_kind
def _result_forged_and_answered(d: Dialect, rng: Random) -> Malformed:
    return Malformed(f"{thought(d, rng)}{call(d, rng)}<tool_response>7</tool_response>{answer(rng)}", "error")


@_text_kind
def _thought_in_another_tag(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    other = "think" if d.think == "thinking" else "thinking"
    return Malformed(f"<{other}>{words(rng)}</{other}>{written}", outcome, ("think_tag",))


@_text_kind
def _no_thought(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(written, outcome, ("no_think",))


@_text_kind
def _empty_thought(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(f"<{d.think}>{rng.choice(('', ' ', chr(10)))}</{d.think}>{written}", outcome, ("empty_think",))


@_text_kind
def _thought_not_closed(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(f"<{d.think}>{words(rng)} {written}", outcome, ("unclosed_think",))


@_text_kind
def _thought_not_opened(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(f"{words(rng)}</{d.think}>{written}", outcome, ("unopened_think",))


@_text_kind
def _two_thoughts(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(thought(d, rng) + thought(d, rng) + written, outcome, ("extra_think",))


@_text_kind
def _thought_after_the_action(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    return Malformed(written + thought(d, rng), outcome, ("late_think",))


@_text_kind
def _call_inside_the_thought(d: Dialect, rng: Random) -> Malformed:
    inner = rng.choice((call(d, rng), answer(rng), "<tool_call>{}", "</answer>"))
    return Malformed(f"<{d.think}>{words(rng)} {inner} so</{d.think}>{answer(rng)}", "answer")


@_text_kind
def _thought_alone(d: Dialect, rng: Random) -> Malformed:
    return Malformed(thought(d, rng), "error")


@_text_kind
def _two_calls(d: Dialect, rng: Random) -> Malformed:
    return Malformed(thought(d, rng) + call(d, rng) + call(d, rng), "error")


@_text_kind
def _call_and_answer(d: Dialect, rng: Random) -> Malformed:
    both = [call(d, rng), answer(rng)]
    rng.shuffle(both)
    return Malformed(thought(d, rng) + "".join(both), "error")


@_text_kind
def _two_answers(d: Dialect, rng: Random) -> Malformed:
    return Malformed(thought(d, rng) + answer(rng) + answer(rng), "error")


@_text_kind
def _answer_empty(d: Dialect, rng: Random) -> Malformed:
    return Malformed(f"{thought(d, rng)}<answer>{rng.choice(('', ' ', chr(10), chr(0x200B)))}</answer>", "error")


@_text_kind
def _answer_with_a_tag(d: Dialect, rng: Random) -> Malformed:
    tag = rng.choice(("<think>a</think>", "<tool_call>", "<answer>", "</tool_call>"))
    return Malformed(f"{thought(d, rng)}<answer>{words(rng)}{tag}</answer>", "error")


@_text_kind
def _no_tags(d: Dialect, rng: Random) -> Malformed:
    return Malformed(words(rng, 30), "error")


@_text_kind
def _nothing(d: Dialect, rng: Random) -> Malformed:
    return Malformed(rng.choice(("", " ", "\n\n", "\t")), "error")


@_text_kind
def _call_empty(d: Dialect, rng: Random) -> Malformed:
    return Malformed(f"{thought(d, rng)}<tool_call>{rng.choice(('', ' ', '``````'))}</tool_call>", "error")


@_text_kind
def _call_is_no_object(d: Dialect, rng: Random) -> Malformed:
    body = rng.choice(("3", '"image_crop"', "[]", "null", "true", "NaN", "[[]]", "-0.0", "1e999"))
    return Malformed(f"{thought(d, rng)}<tool_call>{body}</tool_call>", "error")


@_text_kind
def _call_without_a_name(d: Dialect, rng: Random) -> Malformed:
    crops = crop(d, rng)
    nameless: tuple[object, ...] = ({"arguments": crops}, crops, {}, {"name": None}, {"name": 3}, {"name": []})
    body: object = rng.choice(nameless)
    return Malformed(f"{thought(d, rng)}<tool_call>{json.dumps(body)}</tool_call>", "error")


@_text_kind
def _call_in_a_fence(d: Dialect, rng: Random) -> Malformed:
    body = call(d, rng).removeprefix("<tool_call>").removesuffix("</tool_call>")
    fence = rng.choice(("```json\n{}\n```", "```\n{}\n```", "\n```JSON\n{}```\n", "``` {} ```"))
    return Malformed(f"{thought(d, rng)}<tool_call>{fence.replace('{}', body)}</tool_call>", "call", ("fence",))


@_text_kind
def _arguments_as_text(d: Dialect, rng: Random) -> Malformed:
    body = json.dumps({"name": d.wire("image_crop").name, "arguments": json.dumps(crop(d, rng))})
    return Malformed(f"{thought(d, rng)}<tool_call>{body}</tool_call>", "call", ("arguments",))


@_text_kind
def _arguments_missing(d: Dialect, rng: Random) -> Malformed:
    body = rng.choice(({"name": "{}"}, {"name": "{}", "arguments": None}, {"name": "{}", "arguments": ""}))
    named = json.dumps({**body, "name": d.wire("image_search").name})
    return Malformed(f"{thought(d, rng)}<tool_call>{named}</tool_call>", "call", ("arguments",))


@_text_kind
def _key_beside_the_arguments(d: Dialect, rng: Random) -> Malformed:
    body = {"name": d.wire("image_crop").name, "arguments": crop(d, rng), rng.choice(("id", "type")): words(rng)}
    return Malformed(f"{thought(d, rng)}<tool_call>{json.dumps(body)}</tool_call>", "call", ("unknown_key",))


@_text_kind
def _tags_in_capitals(d: Dialect, rng: Random) -> Malformed:
    written, outcome = action(d, rng)
    spelt = written.replace("tool_call>", "TOOL_CALL>").replace("answer>", "Answer >")
    return Malformed(thought(d, rng) + spelt, outcome, ("tag_spelling",))


@_text_kind
def _noise(d: Dialect, rng: Random) -> Malformed:
    alphabet = '{}[]"\\:,<>/|` \n\x00\u2028abtrue0123456789\ud800\U0001f642'
    body = "".join(rng.choice(alphabet) for _ in range(rng.randint(1, 300)))
    return Malformed(f"{thought(d, rng)}<tool_call>{{{body}</tool_call>", "error", None)


def _native_kind(build: TurnKind) -> TurnKind:
    NATIVE_KINDS[build.__name__.strip("_").replace("_", " ")] = build
    return build


def _native(d: Dialect, rng: Random) -> NativeCall:
    return NativeCall(f"call_{rng.getrandbits(48):x}", d.wire("image_crop").name, json.dumps(crop(d, rng)))


@_native_kind
def _parallel_calls(d: Dialect, rng: Random) -> Malformed:
    calls = tuple(_native(d, rng) for _ in range(rng.randint(2, 4)))
    return Malformed("", "call", ("parallel_calls",), native_calls=calls)


@_native_kind
def _empty_message(d: Dialect, rng: Random) -> Malformed:
    return Malformed(rng.choice(("", " ", "\n", "<think>so</think>")), "error")


@_native_kind
def _call_written_as_text(d: Dialect, rng: Random) -> Malformed:
    return Malformed(f"{words(rng)} {call(d, rng)}", "error")


@_native_kind
def _answer_in_tags(d: Dialect, rng: Random) -> Malformed:
    return Malformed(answer(rng), "answer", ("answer_tag",))


@_native_kind
def _message_cut_at_the_token_limit(d: Dialect, rng: Random) -> Malformed:
    calls = (_native(d, rng),) if rng.random() < 0.5 else ()
    return Malformed(words(rng), "error", finish_reason="length", native_calls=calls)


@_native_kind
def _answer_beside_a_call(d: Dialect, rng: Random) -> Malformed:
    return Malformed(answer(rng), "call", (), native_calls=(_native(d, rng),))


@_native_kind
def _arguments_left_out(d: Dialect, rng: Random) -> Malformed:
    wanted = NativeCall("call_1", d.wire("image_search").name, rng.choice(("", " ")))
    return Malformed(words(rng), "call", ("arguments",), native_calls=(wanted,))
