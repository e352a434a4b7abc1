"""The grammar of a text turn: which blocks a model wrote, in order, and what stands outside them.

Nothing is judged here; agent/parse.py decides what may be executed and what the form is worth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

THOUGHTS = ("think", "thinking")
ACTIONS = ("tool_call", "answer")
_TAG = re.compile(r"<\s*+(/?)\s*+(thinking|think|tool_call|tool_response|answer)\s*+>", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """One tagged piece of a turn."""

    tag: str
    """In lower case."""
    body: str
    opened: bool = True
    """False: only the closing tag was written (the chat template wrote the other one, or the model forgot it)."""
    closed: bool = True
    exact: bool = True
    """The tags are written exactly, in lower case, without spaces and as a pair."""

    @property
    def is_thought(self) -> bool:
        return self.tag in THOUGHTS


@dataclass(frozen=True)
class Written:
    """A turn, cut into blocks."""

    blocks: tuple[Block, ...]
    outside: str
    """Everything that stands in no block."""

    @property
    def thoughts(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.is_thought)

    @property
    def actions(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if not block.is_thought)


def holds_tag(text: str) -> bool:
    """Whether any protocol tag, opening or closing, stands in the text."""
    return _TAG.search(text) is not None


def cut(text: str) -> Written:
    """Blocks never nest: a thought runs to its first closing tag, an action to its own, or to the end of the text."""
    blocks: list[Block] = []
    outside = ""
    at = 0
    while tag := _TAG.search(text, at):
        slash, name = tag[1], tag[2].lower()
        outside += text[at : tag.start()]
        if slash and name in THOUGHTS and not blocks:
            blocks.append(Block(name, outside, opened=False, exact=_is_exact(tag)))
            outside, at = "", tag.end()
        elif slash or name == "tool_response":
            outside += tag[0]
            at = tag.end()
        else:
            block, at = _block(text, tag, name)
            blocks.append(block)
    return Written(tuple(blocks), outside + text[at:])


def missing_close(text: str) -> str:
    """The closing tag of an action that the text opens last and leaves open; empty where there is none."""
    blocks = cut(text).blocks
    if not blocks or blocks[-1].is_thought or blocks[-1].closed:
        return ""
    return f"</{blocks[-1].tag}>"


def _block(text: str, opening: re.Match[str], name: str) -> tuple[Block, int]:
    """The block that this tag opens, and where the text goes on."""
    start = opening.end()
    closing = _closing(text, start, THOUGHTS if name in THOUGHTS else (name,))
    if closing is not None:
        exact = _is_exact(opening) and closing[0] == f"</{name}>"
        return Block(name, text[start : closing.start()], exact=exact), closing.end()
    end = len(text)
    if name in THOUGHTS and (action := _opening_action(text, start)):
        end = action.start()
    return Block(name, text[start:end], closed=False, exact=_is_exact(opening)), end


def _closing(text: str, start: int, names: tuple[str, ...]) -> re.Match[str] | None:
    tags = _TAG.finditer(text, start)
    return next((tag for tag in tags if tag[1] and tag[2].lower() in names), None)


def _opening_action(text: str, start: int) -> re.Match[str] | None:
    tags = _TAG.finditer(text, start)
    return next((tag for tag in tags if not tag[1] and tag[2].lower() in ACTIONS), None)


def _is_exact(tag: re.Match[str]) -> bool:
    return tag[0] == f"<{tag[1]}{tag[2].lower()}>"
