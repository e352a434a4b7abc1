"""Names in queries and texts, and whether a text speaks of that very name or of a longer one that holds it.

"Old Belmont Tower" and "Belmont Tower Hotel" hold the name Belmont Tower and are other things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vlagent.search.words import FUNCTION_WORDS, fold, index_words, stems

_WORD = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
_CAPITALISED = r"[A-Z\u00c0-\u00de0-9][\w'’.-]*"
_NAME = re.compile(rf"{_CAPITALISED}(?:\s+(?:(?:of|the|de|du|la|van|von|der|di|da)\s+){{0,2}}{_CAPITALISED})*")
_ASKING_WORDS = """when where who what which how whose why is was are were did does do the a an in on at of find tell
name year"""
_PLAIN_WORDS = """in on at by with after before since until during near about visit see the this that its their his her
our"""
_ASKING = frozenset(_ASKING_WORDS.split())
"""At the head of a query, no part of a name."""
_PLAIN = FUNCTION_WORDS | frozenset(_PLAIN_WORDS.split())
"""Capitalised beside a name, they do not make it another one."""


def names_in(query: str) -> list[str]:
    """What a query is about: its capitalised names, or where there are none its words without those that only ask."""
    found = [_without_asking(match[0]) for match in _NAME.finditer(query)]
    names = [name for name in dict.fromkeys(found) if name and not name.isdigit()]
    return names or [" ".join(word for word in _WORD.findall(query) if fold(word) not in _ASKING | FUNCTION_WORDS)]


def _without_asking(name: str) -> str:
    words = name.split()
    while words and fold(words[0].strip(".'’-")) in _ASKING:
        words.pop(0)
    return " ".join(words).strip(".'’-")


def mentions(text: str, name: str) -> Iterator[re.Match[str]]:
    """Where a text holds a name, in any case."""
    if not name:
        return iter(())
    words = r"\s+".join(re.escape(word) for word in name.split())
    return re.finditer(rf"(?<![\w-]){words}(?![\w-])", text, re.IGNORECASE)


def speaks_of(text: str, name: str, query: str = "") -> bool:
    """Whether a text holds a name that is not part of a longer one; words of the query do not make it longer."""
    asked = set(stems(index_words(query)))
    return any(not _is_longer(text, match, asked) for match in mentions(text, name))


def _is_longer(text: str, match: re.Match[str], asked: set[str]) -> bool:
    before = re.search(r"([^\W\d_][\w'’-]*)\s+$", text[max(0, match.start() - 40) : match.start()])
    after = re.match(r"\s+([^\W\d_][\w'’-]*)", text[match.end() : match.end() + 40])
    qualifier = re.match(r"\s*\(([^)]*)\)", text[match.end() : match.end() + 60])
    if qualifier and not set(stems(index_words(qualifier[1]))) & asked:
        return True
    return any(word is not None and _extends(word[1], asked) for word in (before, after))


def _extends(word: str, asked: set[str]) -> bool:
    return word[:1].isupper() and fold(word) not in _PLAIN and not set(stems(index_words(word))) & asked


def is_misspelt(word: str, name: str) -> bool:
    """Whether two names of at least five letters differ by one letter."""
    a, b = fold(word), fold(name)
    if a == b or min(len(a), len(b)) < 5 or abs(len(a) - len(b)) > 1:
        return False
    if len(a) == len(b):
        return sum(x != y for x, y in zip(a, b, strict=True)) == 1
    short, long = sorted((a, b), key=len)
    return any(long[:i] + long[i + 1 :] == short for i in range(len(long)))
