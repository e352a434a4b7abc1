"""The options of a multiple-choice question, read from its own text."""

from __future__ import annotations

import re
from collections.abc import Sequence

LINE = re.compile(r"^\s*(?:\(([A-Z])\)|([A-Z])\s*[.):：])\s*(.*)$")
INLINE = re.compile(r"\(([A-Z])\)\s*")
DEFAULT = "ABCD"


def choices_of(question: str, answers: Sequence[str]) -> dict[str, str]:
    """Letter -> text of the options in a question; letters without texts where it lists none that we can read."""
    found = _by_line(question) or _inline(question)
    if found:
        return found
    last = max((answer.strip().upper() for answer in answers if re.fullmatch(r"\s*[A-Za-z]\s*", answer)), default="A")
    return dict.fromkeys("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: max(len(DEFAULT), ord(last) - 64)], "")


def _by_line(question: str) -> dict[str, str]:
    matches = [found for line in question.splitlines() if (found := LINE.match(line))]
    return _in_order([(found[1] or found[2], found[3].strip()) for found in matches])


def _inline(question: str) -> dict[str, str]:
    parts = INLINE.split(question)
    return _in_order([(letter, text.strip(" ,;\n")) for letter, text in zip(parts[1::2], parts[2::2], strict=True)])


def _in_order(options: list[tuple[str, str]]) -> dict[str, str]:
    """Only a run A, B, C ... of at least two is a list of options."""
    letters = "".join(letter for letter, _ in options)
    return dict(options) if len(letters) > 1 and "ABCDEFGHIJKLMNOPQRSTUVWXYZ".startswith(letters) else {}
