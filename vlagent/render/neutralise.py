"""Text from outside can never forge a turn, a result, an answer or an image slot.

A protocol tag or special token is broken by a look-alike of its first bracket (`<think>` becomes `‹think>`), so that a
person reads the same and no tokenizer or parser does. Nothing is ever removed: removal could join the halves of
another token (`<|im_<|im_end|>end|>`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

PROTOCOL_TAGS = ("think", "thinking", "tool_call", "tool_response", "answer", "image")
"""Tags of all our dialects: none may come from outside, whichever dialect is spoken."""
_FOREIGN_TAGS = (
    *(
        "tool_calls",
        "tool",
        "tools",
        "function_call",
        "function",
        "parameter",
        "img",
        "video",
        "audio",
        "s",
        "bos",
        "eos",
    ),
    *("pad", "unk", "mask", "sys", "start_of_turn", "end_of_turn", "start_of_image", "end_of_image", "img_context"),
    *(
        "image_soft_token",
        "image_placeholder",
        "vision_start",
        "vision_end",
        "ref",
        "box",
        "quad",
        "im_start",
        "im_end",
    ),
)
"""Tags of other models' chat templates."""
_BRACKETED = ("INST", "IMG", "IMG_BREAK", "IMG_END", "TOOL_CALLS", "TOOL_RESULTS", "AVAILABLE_TOOLS", "SYSTEM_PROMPT")
"""Mistral's tokens, written in square brackets."""
_GAP = r"[\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]*+"
"""White space and characters without width, as an attacker might slip into a token. Possessive: linear time."""
_LOOK_ALIKES = {"<": "‹〈≺", "＜": "‹〈≺", "[": "［〔⁅"}
_TOKEN_START = re.compile(rf"[<＜](?={_GAP}[|｜])")
_JOINERS = "\u2060\u200d·"
_BLANKS = "\ufffd□"


def break_tokens(text: str) -> str:
    """Only the bar-bracketed tokens broken: a prompt that comes with data teaches our tags, but opens no turn."""
    return _TOKEN_START.sub(_LOOK_ALIKES["<"][0], text)


def neutralise(text: str, specials: Sequence[str] = ()) -> str:
    """The same text, as readable, with every protocol tag and special token broken.

    `specials` is the tokenizer's own list of special tokens, where there is a tokenizer (tokens of white space alone
    are left out); well-known tokens are broken always. Idempotent: a second pass finds nothing.
    """
    breaker = _breaker(tuple(specials))
    return breaker.broken(text)


class _Breaker:
    """Everything that one list of special tokens needs, compiled once."""

    def __init__(self, specials: tuple[str, ...]) -> None:
        own = sorted({s for s in specials if s.strip()}, key=len, reverse=True)
        taken = "".join(own).casefold()
        self._pattern = re.compile("|".join([*_known_patterns(), *map(_pattern_of, own)]), re.IGNORECASE)
        self._first = {bracket: _unused(twins, taken) for bracket, twins in _LOOK_ALIKES.items()}
        self._joiner = _unused(_JOINERS, taken)
        self._blank = _unused(_BLANKS, taken)

    def broken(self, text: str) -> str:
        while True:
            text, count = self._pattern.subn(self._break, text)
            if not count:
                return text

    def _break(self, match: re.Match[str]) -> str:
        token = match.group()
        if token[0] in self._first:
            return self._first[token[0]] + token[1:]
        return self._blank if len(token) == 1 else token[0] + self._joiner + token[1:]


@lru_cache(maxsize=64)
def _breaker(specials: tuple[str, ...]) -> _Breaker:
    return _Breaker(specials)


def _known_patterns() -> list[str]:
    tags = "|".join(sorted(PROTOCOL_TAGS + _FOREIGN_TAGS, key=len, reverse=True))
    squares = "|".join(_BRACKETED)
    return [
        rf"[<＜]{_GAP}[/／]?{_GAP}(?:{tags})(?![\w-])",
        r"[<＜][|｜]",
        rf"[<＜]{_GAP}[|｜]{_GAP}[^\W\d][\w.▁:/ -]{{0,80}}{_GAP}[|｜]{_GAP}[>＞]",
        rf"\[{_GAP}/?{_GAP}(?:{squares})(?![\w-])",
    ]


def _pattern_of(token: str) -> str:
    """A token of the tokenizer's list; gaps are allowed inside its brackets."""
    if token[0] not in _LOOK_ALIKES or len(token) < 3:
        return re.escape(token)
    return re.escape(token[0]) + _GAP + re.escape(token[1:-1].strip()) + _GAP + re.escape(token[-1])


def _unused(candidates: str, taken: str) -> str:
    """A character that stands in no special token, so that it can never complete one."""
    private = map(chr, range(0xE000, 0xF8FF))
    return next(c for c in chain(candidates, private) if c.casefold() not in taken)
