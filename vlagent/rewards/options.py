"""Which option letter does a response state? None where it states none or more than one.

Statements are looked for from the most to the least explicit: "final answer", "answer", "X is right", "option X" or a
letter in brackets, a letter that opens the response, a letter after "is" or "so" at the end of a clause. The first
level that states anything decides; a denied letter (not A, A is wrong) states nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

_NOT = (
    r"(?:\bnot|n't|\bneither|\bnor|\brather than|\binstead of|\bexcept|\bexclud\w*|\beliminat\w*"
    r"|\brul(?:e|es|ed|ing) out)"
)
_LEFT, _RIGHT = r"(?<![A-Za-z0-9_'\u00c0-\u024f])", r"(?![A-Za-z0-9_'\u00c0-\u024f])"
_NOUN = r"(?:options?|choices?|letters?|answers?)"
_IS = r"(?:\s*(?:is|was|are|be|would be|must be|should be|has to be|=|:|：|->|→)\s*|\s+)"
_BECAUSE = r"\s+(?:because|since|as|for|which|based|given|due|where|with)\b"
_END = rf"(?=\s*(?:[.,;:!?)\]}}。，；：！？、-]|$|\n)|{_BECAUSE})"
_BAD = (
    r"(?:\s+(?:is|are|was)\s+(?:wrong|incorrect|false|out|ruled out|eliminated|not)\b"
    r"|\s+(?:isn't|can't|cannot|doesn't|won't)\b)"
)
_WRAP = r"[\s.,;:!?()\[\]{}'\"。，]*"

END_CHARS = 1000


class _Patterns:
    """The patterns for one set of letters."""

    def __init__(self, letters: str) -> None:
        one = f"[{letters}{letters.lower()}]"
        self.letters = letters
        bracketed = rf"[(\[{{]\s*(?:{one})\s*[)\]}}]"
        upper = rf"{_LEFT}[{letters}]{_RIGHT}"
        marked = rf"(?:{bracketed}|{upper})"
        listed = rf"(?>{marked}(?:\s*(?:,|/|;|or|and|&|,\s*(?:or|and))\s*(?:{_NOUN}\s+)?{marked})*)"
        lone = rf"(?:{bracketed}|{_LEFT}[A-Za-z]{_RIGHT}{_END}|{upper}(?=\s*(?:,|/|or\b|and\b|&)\s*{marked}))"
        group = rf"(?>{lone}(?:\s*(?:,|/|or|and|&|,\s*(?:or|and))\s*{marked})*)"
        noun = rf"(?:{_NOUN}\s+)?"
        answer = rf"(?:answer|choice|pick|selection|答案|答え|정답)\W{{0,3}}(?:是|は|为|은|는|{_IS})?\W{{0,3}}{noun}"
        self.whole = re.compile(rf"{_WRAP}(?:{_NOUN}\W+)?({one}){_WRAP}", re.IGNORECASE)
        self.denied = re.compile(
            rf"{_NOT}\s+(?:the\s+|answer\s+|option\s+|choice\s+)*{listed}(?:\s+nor\s+{marked})*|(?:{_NOUN}\s+)?{listed}{_BAD}",
        )
        self.levels = (
            re.compile(rf"(?i:final\s+{answer})({group})"),
            re.compile(rf"(?i:\b{answer}|答案(?:是|为|：)?\s*|[选選](?:择|擇)?\s*)({group})"),
            re.compile(
                rf"(?:(?i:{_NOUN})\s+)?({listed})\s+(?:is|are|was)\s+(?:the\s+)?(?:only\s+)?(?:correct|right|best|true|answer)"
            ),
            re.compile(rf"(?i:\b{_NOUN}\s*)({listed}|{one}{_END})|({bracketed})"),
            re.compile(rf"(?m)^\s*({listed})(?=\s*[.):,;=]|\s*[-–—]\s|{_BECAUSE})"),
            re.compile(
                rf"(?i:\b(?:is|be|it's|so|thus|therefore|hence|but|choose|chose|pick|select|selected|say|with|for|think|both)\s*[,:]?)\s*"
                rf"({listed}){_END}"
            ),
        )


@lru_cache(maxsize=64)
def _patterns(letters: str) -> _Patterns:
    return _Patterns(letters)


def stated_option(response: str, letters: str | Iterable[str]) -> str | None:
    """The one option letter (upper case) that a response states, of those that exist; else None."""
    known = "".join(sorted(letter.upper() for letter in letters))
    if not known or not known.isalpha():
        raise ValueError(f"option letters are letters, got {known!r}")
    text = _ends(_plain(response))
    patterns = _patterns("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    whole = patterns.whole.fullmatch(text)
    if whole:
        return _one({whole[1].upper()}, known)
    text = patterns.denied.sub(" ; ", text)
    for level in patterns.levels:
        stated = {letter for found in level.finditer(text) for letter in _letters(found)}
        if stated:
            return _one(stated, known)
    return None


def _ends(text: str) -> str:
    """The beginning and the end of a long response: that is where options are stated, and it bounds the time."""
    return text if len(text) <= 2 * END_CHARS else f"{text[:END_CHARS]} ... {text[-END_CHARS:]}"


def _plain(response: str) -> str:
    text = unicodedata.normalize("NFKC", response).replace("’", "'")
    text = re.sub(r"</?\s*answer\s*>", " ", text, flags=re.IGNORECASE)
    text = re.sub(r"\\(?:boxed|text|textbf|mathrm|mathbf)\s*", "", text)
    return re.sub(r"[*_`$]", "", text).strip()


def _letters(found: re.Match[str]) -> list[str]:
    text = next(group for group in found.groups() if group is not None)
    return [letter.upper() for letter in re.findall(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])", text)]


def _one(stated: set[str], known: str) -> str | None:
    only = next(iter(stated)) if len(stated) == 1 else ""
    return only if only and only in known else None
