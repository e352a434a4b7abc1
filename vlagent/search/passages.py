"""Documents to passages of some 100 to 200 words, cut on sentence and paragraph borders, with a little overlap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vlagent.search.sentences import Span, sentence_spans


@dataclass(frozen=True)
class Section:
    """A piece of a document in reading order."""

    text: str
    page: int | None = None
    """Page of the file, from 1, where the format has pages."""


@dataclass(frozen=True)
class Document:
    """One thing with a title: a whole file, or one record of a corpus file."""

    title: str
    sections: Iterable[Section]
    """May be read lazily and once; a broken part of the file raises there."""
    id: str | None = None
    url: str | None = None
    whole: bool = False
    """A record that is a passage already (Search-R1 corpora): kept in one piece up to twice the passage size."""


@dataclass(frozen=True)
class Passage:
    """What is indexed and found."""

    title: str
    text: str
    page: int | None = None
    url: str | None = None
    id: str | None = None
    document: int = 0
    """Number of its document in the file, from 0."""


_CJK, _THAI = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3", r"\u0e00-\u0e7f"
_WORD = re.compile(rf"[{_CJK}]{{2}}|[{_THAI}]{{5}}|[^\s{_CJK}{_THAI}]+|\S")
"""Two CJK letters or five Thai ones weigh about as much as an English word."""
LETTERS = 16
"""No text has longer words than this on average; base64 and hashes do."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]|[\ud800-\udfff]")


def clean(text: str) -> str:
    """Text without control characters and lone surrogates, with plain line ends."""
    return _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))


def passages(document: Document, words: int, number: int = 0) -> Iterator[Passage]:
    """Cut a document; `words` is the most that one passage holds."""
    title = " ".join(clean(document.title).split())[:300]
    for section in document.sections:
        text = clean(section.text)
        most = 2 * words if document.whole else words
        for start, end in _windows(text, most):
            yield Passage(title, text[start:end], section.page, document.url, document.id, number)


def count_words(text: str) -> int:
    """Words of a text; scripts without spaces, and strings that are no words, are counted by their length."""
    words = len(text.split()) if text.isascii() else sum(1 for _ in _WORD.finditer(text))
    return max(words, len(text) // LETTERS)


def _windows(text: str, most: int) -> Iterator[Span]:
    units = [(span, count_words(text[span[0] : span[1]])) for span in _units(text, most)]
    first = 0
    while first < len(units):
        last, total = _fill(text, units, first, most)
        yield units[first][0][0], units[last - 1][0][1]
        if last >= len(units):
            return
        first = _step_back(units, first, last, total // 5)


def _fill(text: str, units: list[tuple[Span, int]], first: int, most: int) -> tuple[int, int]:
    """Take units while they fit; past half of the room, an empty line is a good place to stop."""
    total, last, good = 0, first, None
    while last < len(units) and (last == first or total + units[last][1] <= most):
        total += units[last][1]
        last += 1
        if last < len(units) and total >= most // 2 and "\n\n" in text[units[last - 1][0][1] : units[last][0][0]]:
            good = last, total
    if last < len(units) and good:
        return good
    return last, total


def _step_back(units: list[tuple[Span, int]], first: int, last: int, overlap: int) -> int:
    start, taken = last, 0
    while start - 1 > first and taken + units[start - 1][1] <= overlap:
        start -= 1
        taken += units[start][1]
    return start


def _units(text: str, most: int) -> Iterator[Span]:
    """Sentences; what is far too long for one (code, tables, unpunctuated script) is cut at lines, then at words."""
    for start, end in sentence_spans(text):
        if end - start <= 4 * most or count_words(text[start:end]) <= most // 2:
            yield start, end
            continue
        for line in re.finditer(r"[^\n]+", text[start:end]):
            yield from _hard_cut(text, start + line.start(), start + line.end(), max(most // 2, 1))


def _hard_cut(text: str, start: int, end: int, most: int) -> Iterator[Span]:
    words = list(_WORD.finditer(text, start, end))
    for i in range(0, len(words), most):
        right = words[min(i + most, len(words)) - 1].end()
        yield from _slices(words[i].start(), right, LETTERS * most)


def _slices(start: int, end: int, longest: int) -> Iterator[Span]:
    """A 'word' of a million letters (base64) is cut too."""
    while start < end:
        yield start, min(start + longest, end)
        start += longest
