"""Numbers as people write them, read exactly (as fractions) or not at all."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Form = Literal["plain", "fraction", "percent"]

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
SMALL = {word: n for n, word in enumerate(ONES)} | {word: 10 * n for n, word in enumerate(TENS, 2)}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
PARTS = {
    "half": 2,
    "halves": 2,
    "third": 3,
    "quarter": 4,
    "fourth": 4,
    "fifth": 5,
    "sixth": 6,
    "eighth": 8,
    "tenth": 10,
}
SHORT_SCALES = {
    "k": 10**3, "K": 10**3, "M": 10**6, "mn": 10**6, "mln": 10**6, "mio": 10**6, "B": 10**9, "bn": 10**9, "tn": 10**12,
}  # fmt: skip
"""Written right behind the digits. A lower-case m is a metre."""
MAX_EXPONENT = 30
DIGITS = re.compile(
    r"(?:(?P<group>[1-9]\d{0,2}(?:(?P<mark>[, '])\d{3})(?:(?P=mark)\d{3})*)|(?P<whole>0|[1-9]\d{0,39}))?"
    r"(?:\.(?P<decimals>\d{1,40}))?"
    r"(?:[eE](?P<exponent>[+-]?\d{1,3})|\s?[x×*]\s?10\s?\^\s?\{?(?P<power>[+-]?\d{1,3})\}?)?"
)
AMBIGUOUS = re.compile(r"[1-9]\d{0,2}\.000")
"""1.000 is one or, on the continent, a thousand."""
FRACTION = re.compile(r"(?:(?P<whole>\d{1,4})[ -])?(?P<top>\d{1,3})\s?/\s?(?P<bottom>[1-9]\d{0,2})")
PERCENT = re.compile(r"\s?(?:%|percent|per cent|pct\.?)$", re.IGNORECASE)


@dataclass(frozen=True)
class Number:
    """An exact value and how it was written."""

    value: Fraction
    form: Form = "plain"


def same_number(a: Number, b: Number) -> bool:
    """Equal values; 2/4 is not 3/6 (time signatures, odds), and 100 % is not the bare count 1."""
    if a.value != b.value:
        return False
    if a.form == b.form == "fraction":
        return False  # written alike they are equal as texts already
    if "percent" in (a.form, b.form) and a.form != b.form:
        return a.value.denominator != 1
    return True


def read_number(text: str) -> Number | None:
    """Read the whole text as one number, or None. The text is already clean (`plain.clean`)."""
    text = text.strip()
    percent = PERCENT.search(text)
    if percent:
        inner = read_number(text[: percent.start()])
        return Number(inner.value / 100, "percent") if inner and inner.form == "plain" else None
    sign = -1 if re.match(r"-\s?\d|-\.\d|(?:minus|negative)\s", text, re.IGNORECASE) else 1
    body = re.sub(r"^(?:[-+]\s?(?=[\d.])|(?:minus|negative)\s+)", "", text, flags=re.IGNORECASE)
    fraction = FRACTION.fullmatch(body)
    if fraction:
        whole = int(fraction["whole"] or 0)
        top, bottom = int(fraction["top"]), int(fraction["bottom"])
        return Number(sign * (whole + Fraction(top, bottom)), "fraction")
    value = _digits(body)
    if value is None:
        value = _scaled(body)
    if value is None:
        value = _words(body.lower())
    return None if value is None else Number(sign * value)


def _digits(text: str) -> Fraction | None:
    found = DIGITS.fullmatch(text)
    if not found or not (found["group"] or found["whole"] or found["decimals"]) or AMBIGUOUS.fullmatch(text):
        return None
    whole = re.sub(r"\D", "", found["group"] or found["whole"] or "0")
    exponent = int(found["exponent"] or found["power"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    return Fraction(f"{whole}.{found['decimals'] or 0}") * Fraction(10) ** exponent


def _scaled(text: str) -> Fraction | None:
    """Digits with a scale: 2 thousand, 1.5M, 3 bn, 2 hundred million."""
    found = re.fullmatch(r"(.*?\d)\s?((?:hundred\s)?(?:[A-Za-z]+))", text)
    if not found:
        return None
    value = _digits(found[1])
    words = found[2].lower().split()
    scale = 100 if words[0] == "hundred" else 1
    if words[-1] != "hundred":
        known = SCALES.get(words[-1]) or SHORT_SCALES.get(found[2])
        if found[2] in ("k", "K") and " " in text:
            return None  # 300 K is a temperature
        if known is None:
            return None
        scale *= known
    return None if value is None else value * scale


def _words(text: str) -> Fraction | None:
    words = text.replace("-", " ").split()
    if not words or len(words) > 20:
        return None
    part = _fraction_words(words)
    if part is not None:
        return part
    if words[-1] == "dozen":
        return _dozens(words[:-1])
    value = _whole(words)
    return Fraction(value) if value is not None else _year_words(words)


def _dozens(words: list[str]) -> Fraction | None:
    if words in ([], ["a"]):
        return Fraction(12)
    if words in (["half", "a"], ["half"]):
        return Fraction(6)
    count = _whole(words)
    return None if count is None else Fraction(12 * count)


def _fraction_words(words: list[str]) -> Fraction | None:
    """Three quarters, one half, a third, two and a half."""
    if words == ["half"]:
        return Fraction(1, 2)
    if len(words) > 3 and "and" in words:
        split = len(words) - 1 - words[::-1].index("and")
        whole, part = _whole(words[:split]), _fraction_words(words[split + 1 :])
        return whole + part if whole is not None and part is not None else None
    if len(words) != 2:
        return None
    singular = words[1].removesuffix("s") if words[1] != "halves" else "half"
    top = 1 if words[0] in ("a", "an") else SMALL.get(words[0])
    if top is None or singular not in PARTS or (top == 1) != (words[1] == singular) or not 0 < top < 20:
        return None
    return Fraction(top, PARTS[singular])


def _whole(words: list[str]) -> int | None:
    """Two hundred and five thousand and twelve; the order of scales is checked."""
    if words[:1] in (["a"], ["an"]):
        words = ["one", *words[1:]] if words[1:2] and words[1] in {"hundred", *SCALES} else []
    total, last_scale, chunk = 0, 10**15, []
    for word in words:
        if word not in SCALES:
            chunk.append(word)
            continue
        below = _hundreds(chunk)
        if below is None or SCALES[word] >= last_scale:
            return None
        total, last_scale, chunk = total + below * SCALES[word], SCALES[word], []
    if not chunk:
        return total if total else None
    if chunk[0] == "and":
        chunk = chunk[1:] if total else []
    rest = _hundreds(chunk)
    return None if rest is None or (rest == 0 and total) else total + rest


def _hundreds(words: list[str]) -> int | None:
    """Nought to 9,999 in words without a scale: ninety-nine, two hundred and five, nineteen hundred."""
    if "hundred" in words:
        at = words.index("hundred")
        head, tail = _tens(words[:at]), words[at + 1 :]
        if head is None or head == 0 or head % 10 == 0:
            return None
        if not tail:
            return head * 100
        rest = _tens(tail[1:] if tail[0] == "and" else tail)
        return None if not rest else head * 100 + rest
    return _tens(words)


def _tens(words: list[str]) -> int | None:
    if len(words) == 1:
        return SMALL.get(words[0])
    if len(words) == 2 and words[0] in TENS and words[1] in ONES[1:10]:
        return SMALL[words[0]] + SMALL[words[1]]
    return None


def _year_words(words: list[str]) -> Fraction | None:
    """Nineteen eighty-four, twenty nineteen: a pair of two-digit numbers."""
    if len(words) not in (2, 3) or SMALL.get(words[0], 0) not in range(11, 21):
        return None
    rest = _tens(words[1:])
    return Fraction(SMALL[words[0]] * 100 + rest) if rest and rest >= 10 else None
