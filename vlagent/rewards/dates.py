"""Dates and times of day, read only where one reading is possible."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, time

MONTHS = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
MONTH_OF = {m: n for n, m in enumerate(MONTHS, 1)} | {m[:3]: n for n, m in enumerate(MONTHS, 1)} | {"sept": 9}
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_M = "(?P<month>" + "|".join(sorted(MONTH_OF, key=len, reverse=True)) + r")\.?"
_D = r"(?:the\s)?(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_Y = r"(?P<year>\d{4})"
_SEP = r"(?:,\s?|\s)"
NAMED = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_M}\s{_D}(?:{_SEP}{_Y})?",
        rf"{_D}(?:\sof)?[\s-]{_M}(?:(?:{_SEP}|-|\sof\s){_Y})?",
        rf"{_M}{_SEP}(?:of\s)?{_Y}",
        rf"{_Y}[\s-]{_M}(?:[\s-]{_D})?",
    )
]
ISO = re.compile(r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})(?:T00:00(?::00)?Z?)?")
NUMERIC = re.compile(r"(?P<first>\d{1,2})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})")
CJK = re.compile(r"(?:(?P<year>\d{4})[年년]\s?)?(?P<month>\d{1,2})[月월](?:\s?(?P<day>\d{1,2})[日号號일])?")
_W = "|".join([*WEEKDAYS, *(name[:3] for name in WEEKDAYS)])
WEEKDAY = re.compile(rf"(?:on\s)?(?P<weekday>{_W})\.?,?\s", re.IGNORECASE)
_ZONE = r"(?:\s(?P<zone>[A-Z]{2,5}))?"
TIME = re.compile(
    r"(?P<hour>\d{1,2})(?:[:.](?P<minute>\d{2})(?::(?P<second>\d{2}))?)?\s?(?P<half>[ap]\.?\s?m\b\.?)" + _ZONE,
    re.IGNORECASE,
)
CLOCK = re.compile(
    r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?(?:\s(?:h|hrs|hours))?(?:\s(?P<zone>[A-Z]{2,5}))?"
)


@dataclass(frozen=True)
class Day:
    """A date as precise as it was written: July 2015 is not July 5, 2015."""

    year: int | None
    month: int
    day: int | None


@dataclass(frozen=True)
class Clock:
    """A time of day with its half known, and the zone if one was written."""

    at: time
    zone: str = ""


def read_date(text: str) -> Day | None:
    """Read a clean text as a date, or None. 5/7/2015 has two readings and is none; 30/9/1997 has one."""
    weekday = WEEKDAY.match(text)
    body = text[weekday.end() :] if weekday else text
    body = re.sub(r"^on\s", "", body, flags=re.IGNORECASE)
    found = _read_named(body) or _read_numeric(body)
    if found is None or not _exists(found):
        return None
    if weekday and not _falls_on(found, weekday["weekday"]):
        return None
    return found


def _read_named(text: str) -> Day | None:
    for pattern in NAMED:
        found = pattern.fullmatch(text)
        if found:
            groups = found.groupdict()
            return Day(
                int(groups["year"]) if groups.get("year") else None,
                MONTH_OF[groups["month"].lower()],
                int(groups["day"]) if groups.get("day") else None,
            )
    return None


def _read_numeric(text: str) -> Day | None:
    found = ISO.fullmatch(text) or CJK.fullmatch(text)
    if found:
        year, day = found["year"], found["day"]
        return Day(int(year) if year else None, int(found["month"]), int(day) if day else None)
    found = NUMERIC.fullmatch(text)
    if not found:
        return None
    first, second = int(found["first"]), int(found["second"])
    if first <= 12 and second <= 12 and first != second:
        return None
    day, month = (first, second) if first > 12 or first == second else (second, first)
    return Day(int(found["year"]), month, day)


def _exists(day: Day) -> bool:
    try:
        date(day.year or 2000, day.month, day.day or 1)
    except ValueError:
        return False
    return True


def _falls_on(day: Day, weekday: str) -> bool:
    if day.year is None or day.day is None:
        return False
    return WEEKDAYS[date(day.year, day.month, day.day).weekday()].startswith(weekday.lower()[:3])


def read_time(text: str) -> Clock | None:
    """Read a clean text as a time of day whose half is known: 10:30 a.m., 22:30, noon; 10:30 alone may be either."""
    plain = text.lower().removeprefix("at ")
    if plain in ("noon", "12 noon", "midday"):
        return Clock(time(12))
    if plain in ("midnight", "12 midnight"):
        return Clock(time(0))
    body = text[len(text) - len(plain) :]
    found = TIME.fullmatch(body)
    if found:
        hour = int(found["hour"])
        if not 1 <= hour <= 12:
            return None
        return _clock(hour % 12 + (12 if found["half"][0].lower() == "p" else 0), found)
    found = CLOCK.fullmatch(body)
    if found and (int(found["hour"]) > 12 or found["hour"] == "00"):
        return _clock(int(found["hour"]), found)
    return None


def _clock(hour: int, found: re.Match[str]) -> Clock | None:
    minute, second = int(found["minute"] or 0), int(found["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    return Clock(time(hour, minute, second), (found["zone"] or "").upper())
