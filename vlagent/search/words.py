"""Text to index words, one way for documents and queries, in any script.

Latin, Greek, Cyrillic, Arabic, Hebrew and Indic words are case-folded and lose their accents. Scripts that are written
without spaces (Chinese, Japanese, Thai, ...) and Korean, whose particles cling to the noun, become bigrams: 国立競技場
is found inside 東京の国立競技場です.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import tantivy

_CJK = (
    r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
"""Han, kana and Hangul syllables."""
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese, Khmer."""
_ACCENTS = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0640]"
)
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th", "ŧ": "t"}
)
_FUNCTION = """a an and are as at be been but by can could did do does for from had has have how i if in into is it its
me my of on or our please shall should so tell than that the their them then there these they this those to was we were
what when where which who whom whose why will with would you your s t"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())
"""English words that only make a question a sentence; with them "how do I" finds to-do lists."""
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_POSSESSIVE = re.compile(r"['’]s\b")


_LONGEST = 100
"""Bytes of a word, safely below what the analyser drops."""


@cache
def _marks() -> str:
    """Vowel signs of the scripts of India and South-East Asia: they are parts of words but not `\\w`."""
    return "".join(chr(c) for c in range(0x0900, 0x1D00) if unicodedata.category(chr(c)) in ("Mn", "Mc"))


@cache
def _runs() -> re.Pattern[str]:
    cjk, unspaced, marks = _CJK, _UNSPACED, re.escape(_marks())
    return re.compile(
        rf"(?P<cjk>[{cjk}]+)|(?P<unspaced>[{unspaced}]+)|(?P<word>(?:[^\W_{cjk}{unspaced}](?:(?![{unspaced}])[{marks}])*)+)"
    )


def fold(text: str) -> str:
    """Lower-case without accents: "Ångström" and "angstrom", "ＡＢＣ" and "abc" are the same."""
    if text.isascii():
        return text.lower()
    bare = _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold()))
    return unicodedata.normalize("NFC", bare.casefold()).translate(_PLAIN_LETTERS)


def index_words(text: str) -> list[str]:
    """The words that a document is found by; runs without spaces give their single letters and their bigrams."""
    return list(_words(text, singles=True))


def query_words(text: str) -> list[str]:
    """The distinct words of a query in their order; function words only where there is nothing else.

    A run of one CJK letter is looked up alone, a longer one by its bigrams.
    """
    words = list(dict.fromkeys(_words(text, singles=False)))
    return [word for word in words if word not in FUNCTION_WORDS] or words


@cache
def analyser() -> Any:
    """The last step, inside tantivy: no endless words, no English endings (other languages are hardly touched)."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace())
    return builder.filter(tantivy.Filter.remove_long(120)).filter(tantivy.Filter.stemmer("english")).build()


def stems(words: Iterable[str]) -> list[str]:
    """Words as the index holds them."""
    return list(analyser().analyze(" ".join(words)))


@cache
def exact_analyser() -> Any:
    """For `inflected` words: as they are."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


def inflected(words: Iterable[str]) -> list[str]:
    """Those that the analyser changes; kept beside their stems, so that "corking" finds itself before "cork"."""
    short = [word for word in words if len(word.encode()) <= _LONGEST]
    return [word for word, stem in zip(short, stems(short), strict=True) if word != stem]


def _words(text: str, *, singles: bool) -> Iterator[str]:
    folded = _POSSESSIVE.sub("", fold(text))
    if folded.isascii():
        yield from _ASCII_WORD.findall(folded)
        return
    for run in _runs().finditer(folded):
        if run["word"]:
            yield run["word"]
            continue
        letters = list(run["cjk"]) if run["cjk"] else _clusters(run["unspaced"])
        if singles or len(letters) == 1:
            yield from letters
        yield from (a + b for a, b in pairwise(letters))


def _clusters(run: str) -> list[str]:
    """Letters of a Thai-like run, each with the vowel and tone marks that sit on it."""
    clusters: list[str] = []
    for letter in run:
        if clusters and unicodedata.category(letter) in ("Mn", "Mc"):
            clusters[-1] += letter
        else:
            clusters.append(letter)
    return clusters
