"""Text that two people wrote differently, in one plain form. Nothing here changes what is meant."""

from __future__ import annotations

import re
import unicodedata

QUOTES = dict.fromkeys(map(ord, '"“”„‟«»‹›「」『』《》〈〉'), None)
APOSTROPHES = dict.fromkeys(map(ord, "’‘ʼ´′"), "'")
DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−﹣－"), "-")
LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th", "ё": "е"})
"""Latin letters that Unicode does not decompose; after case folding."""
VULGAR = re.compile("([0-9]?)([¼½¾⅐-⅞])")
POWER = re.compile("(?<=[0-9)])([⁺⁻]?[⁰¹²³⁴-⁹]+)")
"""NFKC alone would make 106 of 10⁶. After a letter it is a unit's (km²) and may fall."""
TAGS = re.compile(r"</?\s*answer\s*>", re.IGNORECASE)
WRAPPERS = (
    re.compile(r"^\\boxed\{(.*)\}$", re.DOTALL),
    re.compile(r"^\\text\{(.*)\}$", re.DOTALL),
    re.compile(r"^\*\*(.*)\*\*$", re.DOTALL),
    re.compile(r"^`+(.*?)`+$", re.DOTALL),
)
LEAD_IN = re.compile(r"^(?:(?:the|my)\s+)?(?:(?:final|correct)\s+)?answer(?:\s+is\b\s*:?|\s*:)\s*", re.IGNORECASE)
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
ARTICLE = re.compile(r"^(the|a|an)\s+(?=\S)", re.IGNORECASE)
DOTTED = re.compile(r"\b(?:[^\W\d_]\.[ ]?)+[^\W\d_]\b\.?(?!\w)")
"""Initials and abbreviations: U.S.A., J. K., e.g."""
FEET = re.compile(r"(\d+)'\s?(\d+(?:\.\d+)?)\s?(?:\"|'')")
CASED_UNIT = re.compile(
    r"(?<![^\W\d_])(\d[\d.,]*)\s?(m|g|k|b|t|s|w|v|mw|mb|gb|kb|tb|mm|pa|mpa|ma|mv|ms)\b", re.IGNORECASE
)
"""A number and a unit whose case matters: 5 MW is not 5 mW, 5G is not 5 g."""


_FIRST = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]
ORDINALS = {word: f"{n}{('st', 'nd', 'rd')[n - 1] if n < 4 else 'th'}" for n, word in enumerate(_FIRST, 1)}
_TENS = {"twenty": 2, "thirty": 3, "forty": 4, "fifty": 5, "sixty": 6, "seventy": 7, "eighty": 8, "ninety": 9}
ORDINAL = re.compile(rf"\b(?:({'|'.join(_TENS)})[ -])?({'|'.join(_FIRST)})\b")


def clean(text: str) -> str:
    """Take off wrappings that carry no meaning: tags, quotes, bold, a lead-in, outer punctuation, odd spaces."""
    text = POWER.sub(r"^\1", VULGAR.sub(_spell_fraction, text))
    text = unicodedata.normalize("NFKC", text).replace("\u2044", "/")
    text = "".join(" " if c.isspace() else c for c in text if unicodedata.category(c) != "Cf")
    text = TAGS.sub(" ", text.translate(APOSTROPHES).translate(DASHES))
    text = FEET.sub(r"\1 ft \2 in", text)
    text = " ".join(text.split())
    for _ in range(4):
        before = text
        for wrapper in WRAPPERS:
            text = wrapper.sub(r"\1", text).strip()
        text = _strip_edges(LEAD_IN.sub("", text))
        if text == before:
            break
    return text


def _spell_fraction(found: re.Match[str]) -> str:
    """Write 1½ as 1 1/2, for NFKC alone would make 11/2 of it."""
    return f"{found[1]} {unicodedata.normalize('NFKC', found[2])}" if found[1] else found[0]


def _strip_edges(text: str) -> str:
    text = text.translate(QUOTES).strip()
    if text[:1] + text[-1:] in ("()", "[]", "''") and not set(text[1:-1]) & set(text[:1] + text[-1:]):
        text = text[1:-1].strip()
    return text.rstrip(" .,;:!?。，、；：！？…").lstrip(" ,;:!?¿¡。，、；：！？…")


def key(text: str) -> str:
    """The form in which two texts are compared letter by letter; '' where nothing is left."""
    text = _drop_article(clean(text))
    text = CASED_UNIT.sub(lambda m: m[1] + _mark_case(m[2]), text)
    text = DOTTED.sub(lambda m: m[0].replace(".", "").replace(" ", ""), text)
    text = fold(text).replace("&", " and ").replace("'", "").replace("・", "").replace("·", " ")
    text = ORDINAL.sub(_ordinal, text)
    text = re.sub(r"(?<=\d)\s?×\s?(?=\d)|(?<=\d)\sx\s(?=\d)", "x", text)
    text = re.sub(r"(?<!\d)[,;:.](?=\s|$)|[,;:](?=\s|$)|(?<=\d)\.(?=\s|$)", " ", text)
    text = re.sub(r"[()\[\]{}|!?¿¡。、・…*_\\]", " ", text)
    text = re.sub(r"(?<=[^\W\d])-(?=\w)|(?<=\d)-(?=[^\W\d])|\s-\s", " ", text)
    text = re.sub(r"(?<=[^\W\d])\s+(?=\d)|(?<=\d)\s+(?=[^\W\d])", "", text)
    text = re.sub(f"(?<=[{CJK}])\\s+(?=[{CJK}])", "", text)
    return " ".join(text.split())


def _ordinal(found: re.Match[str]) -> str:
    """Write twenty-first as 21st."""
    return f"{_TENS[found[1]] if found[1] else ''}{ORDINALS[found[2]]}"


def _mark_case(unit: str) -> str:
    return "".join(f"{c}ↈ" if c.isupper() else c for c in unit)


def _drop_article(text: str) -> str:
    """Drop a leading article; a capital A before a name may be an initial or a family name, so it stays."""
    found = ARTICLE.match(text)
    if not found:
        return text
    rest = text[found.end() :]
    if found[1].lower() == "the":
        return rest
    if rest[0].isdigit() or len(rest.split()[0]) == 1 or (found[1][0].isupper() and rest != rest.lower()):
        return text
    return rest


def fold(text: str) -> str:
    """Fold case and drop the accents of Latin and Greek letters; marks of other scripts carry meaning and stay."""
    kept: list[str] = []
    for char in unicodedata.normalize("NFD", text.casefold()):
        latin_or_greek = bool(kept) and unicodedata.name(kept[-1], "").startswith(("LATIN", "GREEK"))
        if not (latin_or_greek and "\u0300" <= char <= "\u036f"):
            kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept)).translate(LETTERS)
