"""Does an answer match a ground truth by rules alone? A false yes is worse than a no: a judge may still say yes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vlagent.rewards.dates import read_date, read_time
from vlagent.rewards.numbers import read_number, same_number
from vlagent.rewards.plain import clean, key
from vlagent.rewards.units import read_amount, same_amount
from vlagent.types import Record

MAX_CHARS = 400
"""A longer answer is prose: compared as text only."""
_ERA = r"(AD|CE|BCE?|B\.C(?:\.E)?\.?|A\.D\.?|C\.E\.?)"
ERA = re.compile(rf"{_ERA}\s?(\d{{1,4}})|(\d{{1,4}})\s?{_ERA}")
RANGE = re.compile(
    r"(?:from\s|between\s)?(?P<low>\d[\d,.]*)\s?(?:-|\sto\s|\sand\s)\s?(?P<high>\d[\d,.]*)", re.IGNORECASE
)
SEASON = re.compile(r"(?P<first>\d{4})[-/](?P<last>\d{2}|\d{4})")
SEPARATOR = re.compile(r"\s*(?:[,;]\s+(?:and\s+|&\s*)?|\s+and\s+|\s*&\s*|、|，|；|\n)\s*", re.IGNORECASE)


class MatchResult(Record):
    """Whether, by which rule (text, number, amount, date, time, era, season, range, list), and with which truth."""

    matched: bool
    rule: str = ""
    truth: str | None = None


def match(answer: str, truths: Sequence[str]) -> MatchResult:
    """Compare a final answer with each accepted ground truth; the first that matches by some rule wins."""
    for truth in truths:
        rule = _rule_that_matches(answer, truth)
        if rule:
            return MatchResult(matched=True, rule=rule, truth=truth)
    return MatchResult(matched=False)


def _rule_that_matches(answer: str, truth: str) -> str:
    a, b = clean(answer), clean(truth)
    if not a or not b:
        return ""
    if a == b:
        return "text"
    if max(len(a), len(b)) <= MAX_CHARS:
        typed = _typed_rule(a, b)
        if typed is not None:
            return typed
        if _same_list(answer, truth):
            return "list"
    left = key(answer)
    return "text" if left and left == key(truth) else ""


def _typed_rule(a: str, b: str) -> str | None:
    """The rule by which two typed values are equal; '' where both are of one type and differ; None if untyped."""
    a, b = _without_the(a), _without_the(b)
    for name, same in RULES:
        verdict = same(a, b)
        if verdict is not None:
            return name if verdict else ""
    return None


def _without_the(text: str) -> str:
    return re.sub(r"^the\s+(?=\S)", "", text, flags=re.IGNORECASE)


def _same_number(a: str, b: str) -> bool | None:
    x, y = read_number(a), read_number(b)
    if x is None or y is None or (x.form == y.form == "fraction" and key(a) == key(b)):
        return None
    return same_number(x, y)


def _same_amount(a: str, b: str) -> bool | None:
    x, y = read_amount(a), read_amount(b)
    return None if x is None or y is None else same_amount(x, y)


def _same_date(a: str, b: str) -> bool | None:
    x, y = read_date(a), read_date(b)
    return None if x is None or y is None else x == y


def _same_time(a: str, b: str) -> bool | None:
    x, y = read_time(a), read_time(b)
    return None if x is None or y is None else x == y


def _same_era(a: str, b: str) -> bool | None:
    x, y = _read_era(a), _read_era(b)
    return None if x is None or y is None else x == y


def _read_era(text: str) -> tuple[int, bool] | None:
    """(year, before Christ)."""
    found = ERA.fullmatch(text)
    if not found:
        return None
    return int(found[2] or found[3]), (found[1] or found[4]).startswith("B")


def _same_season(a: str, b: str) -> bool | None:
    x, y = _read_season(a), _read_season(b)
    return None if x is None or y is None else x == y


def _read_season(text: str) -> int | None:
    """The first year of 2015/16, 2015-16 or 2015/2016."""
    found = SEASON.fullmatch(text)
    if not found or int(found["last"][-2:]) != (int(found["first"]) + 1) % 100:
        return None
    whole = len(found["last"]) == 4
    return int(found["first"]) if not whole or int(found["last"]) == int(found["first"]) + 1 else None


def _same_range(a: str, b: str) -> bool | None:
    x, y = _read_range(a), _read_range(b)
    return None if x is None or y is None else x == y


def _read_range(text: str) -> tuple[object, object] | None:
    found = RANGE.fullmatch(text)
    if not found or ("between" in text.lower()) != (" and " in text.lower()) or _is_score(text):
        return None
    low, high = read_number(found["low"]), read_number(found["high"])
    return (low.value, high.value) if low and high and low.value < high.value else None


def _is_score(text: str) -> bool:
    """3-2 may be a score, so a dash between small numbers is left to the text."""
    return bool(re.fullmatch(r"\d{1,2}\s?-\s?\d{1,2}", text))


RULES: tuple[tuple[str, Callable[[str, str], bool | None]], ...] = (
    ("number", _same_number),
    ("amount", _same_amount),
    ("date", _same_date),
    ("time", _same_time),
    ("era", _same_era),
    ("season", _same_season),
    ("range", _same_range),
)


def _same_list(answer: str, truth: str) -> bool:
    """The same items in the same order, however they are joined."""
    a, b = _items(answer), _items(truth)
    return len(a) == len(b) > 1 and all(_rule_that_matches(x, y) for x, y in zip(a, b, strict=True))


def _items(text: str) -> list[str]:
    lines = [re.sub(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)", "", line) for line in text.strip().splitlines() if line.strip()]
    body = "\n".join(lines) if len(lines) > 1 else clean(text)
    return [item for item in SEPARATOR.split(body) if item.strip()]
