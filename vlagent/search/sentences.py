"""Sentences as spans of a text, in scripts with and without spaces."""

from __future__ import annotations

import re

Span = tuple[int, int]
"""Start and end of a piece of a text; end is exclusive."""

_SHORT = """mr mrs ms dr prof st sr jr vs etc e.g i.e eg ie cf al fig figs no nos vol pp p ca approx dept inc ltd co
corp gen col sgt capt lt rev hon gov sen rep jan feb mar apr jun jul aug sep sept oct nov dec u.s u.k a.m p.m bzw z.b
usw nr d.h vgl bspw"""
_ABBREVIATIONS = frozenset(_SHORT.split())
_BORDER = re.compile(
    r"""(?P<wide>[。！？｡]+[」』”’）】]*)             # Chinese and Japanese stops need no space after them
      | (?P<stop>[.!?…।॥؟۔]+["'”’»)\]]*)(?=\s)      # a stop and white space
      | (?P<paragraph>\n[ \t]*(?:\n\s*)+)            # an empty line
      | (?P<item>\n)(?=[ \t]*(?:[-*•‣◦+]|\#{1,6}|\d{1,3}[.)]|[|>])[ \t])  # a list item, a heading, a table row
    """,
    re.VERBOSE,
)
_LAST_WORD = re.compile(r"([\w.]+)\.$")


def sentence_spans(text: str) -> list[Span]:
    """Sentences of a text in order, without the white space around them."""
    spans: list[Span] = []
    start = 0
    for border in _BORDER.finditer(text):
        if border["stop"] and not _ends_a_sentence(text, start, border):
            continue
        _append(spans, text, start, border.end())
        start = border.end()
    _append(spans, text, start, len(text))
    return spans


def sentences(text: str) -> list[str]:
    """Sentences of a text in order, each on one line."""
    return [" ".join(text[start:end].split()) for start, end in sentence_spans(text)]


def _ends_a_sentence(text: str, start: int, border: re.Match[str]) -> bool:
    if not border["stop"].startswith(".") or border["stop"].startswith(".."):
        return True
    following = text[border.end() : border.end() + 40].lstrip()
    if following[:1].islower():
        return False
    before = text[max(start, border.start() - 20) : border.start()]
    word = _LAST_WORD.search(before + ".")
    if not word:
        return True
    last = word[1].lower()
    is_initial = len(last) == 1 and last.isalpha() and word[1].isupper() and bool(before[: word.start()].strip())
    return last not in _ABBREVIATIONS and not is_initial


def _append(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    left = start + len(piece) - len(piece.lstrip())
    right = left + len(piece.strip())
    if right > left:
        spans.append((left, right))
