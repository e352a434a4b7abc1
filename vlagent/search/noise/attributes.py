"""What a query may ask for, and the ways in which an English sentence states it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vlagent.search.noise.names import names_in

_YEAR = r"(?P<value>(?:1[0-9]|20)\d\d)\b"
_CAPITALISED = r"[A-Z\u00c0-\u00de][\w'’&-]*"
_WHO = rf"(?P<value>(?:the\s+)?{_CAPITALISED}(?:[ ]+(?:(?:of|the|de|van|von|and)[ ]+)?{_CAPITALISED})*)"
_NUMBER = r"(?P<value>\d[\d.,  ]*(?:million|billion|thousand)?)"
_DAY = r"(?:\d{1,2}(?:st|nd|rd|th)?,?\s+)?"
_ON = (
    rf"(?:[^.;,]{{0,25}}?\s)??(?:in|on|around|since)\s+(?:early\s+|late\s+)?{_DAY}(?:[A-Z][a-z]+\s+)?(?:\d{{1,2}},\s+)?"
)
"""Between a verb and its year: "on 3 May", "in", "to the public in May"."""
_METRES = r"\s*(?:km|m|metres|meters|kilometres|kilometers)\b"


@dataclass(frozen=True)
class Attribute:
    """Something that is asked for, and how a text states it."""

    name: str
    asked: str
    """Regular expression over the query."""
    stated: tuple[str, ...]
    """Regular expressions over a sentence, each with a group `value`."""


def _when(name: str, asked: str, verbs: str) -> Attribute:
    return Attribute(name, asked, (rf"\b(?:{verbs})\b{_ON}{_YEAR}",))


def _who(name: str, asked: str, *phrases: str) -> Attribute:
    return Attribute(name, asked, tuple(rf"\b{phrase}\s+{_WHO}" for phrase in phrases))


def _amount(name: str, asked: str, *forms: str) -> Attribute:
    return Attribute(name, asked, tuple(rf"\b{form.replace('NUMBER', _NUMBER)}" for form in forms))


ATTRIBUTES = (
    _when(
        "founded",
        r"\b(?:found(?:ed|ing|ation)|establish(?:ed|ment)|inception|incorporated)\b",
        "founded|established|incorporated",
    ),
    _when("opened", r"\b(?:open(?:ed|ing)?|inaugurat\w+)\b", "opened|inaugurated"),
    _when("built", r"\b(?:built|construct\w+|complet\w+)\b", "built|constructed|completed"),
    _when("released", r"\b(?:releas\w+|publish\w+|launch\w+)\b", "released|published|launched"),
    _when("died", r"\b(?:die[ds]?|death)\b", "died"),
    _who(
        "birthplace",
        r"\bwhere\b.*\bborn\b|\bbirth ?place\b|\bborn (?:in )?where\b",
        r"born\b[^.;]{0,40}?\b(?:in|at)",
    ),
    _when("born", r"\bborn\b|\bbirth(?:day| date| year)?\b", "born"),
    _who(
        "based",
        r"\b(?:based|headquarter\w*|head office)\b",
        r"(?:based|headquartered)\s+in",
        r"headquarters\s+(?:is|are)\s+in",
    ),
    _who("located", r"\b(?:locat\w+|stands?|situated|where)\b", r"(?:stands|located|situated|lies)\s+in"),
    _who("owner", r"\b(?:own(?:s|ed|er|ers)?)\b", r"owned\s+by", r"owner\s+is"),
    _who("designer", r"\b(?:design\w*|architect)\b", r"designed\s+by", r"architect\s+(?:is|was)"),
    _who("author", r"\b(?:author|wrote|written|writer)\b", r"written\s+by"),
    _who("director", r"\bdirect(?:ed|or)\b", r"directed\s+by"),
    _who("capital", r"\bcapital\b", r"capital\b[^.;]{0,30}?\bis"),
    _amount(
        "population",
        r"\b(?:population|inhabitants|how many people)\b",
        r"population\b[^.;\d]{0,30}?\b(?:of|is|was)\s+(?:about\s+)?NUMBER",
    ),
    _amount(
        "height",
        r"\b(?:height|how (?:tall|high))\b",
        rf"NUMBER{_METRES}\s+(?:tall|high)",
        r"height\b[^.;\d]{0,30}?\b(?:of|is)\s+NUMBER",
    ),
    _amount(
        "length",
        r"\b(?:length|how long)\b",
        rf"NUMBER{_METRES}\s+long\b",
        r"length\b[^.;\d]{0,30}?\b(?:of|is)\s+NUMBER",
    ),
    _amount(
        "capacity", r"\b(?:capacity|how many (?:seats|spectators))\b", r"capacity\b[^.;\d]{0,30}?\b(?:of|is)\s+NUMBER"
    ),
)
"""The first that a query asks for decides."""


def subject_of(query: str) -> str:
    """The name of what a query is about: the longest one, without the words that say what is asked of it."""
    attribute = attribute_of(query)
    bare = re.sub(attribute.asked, " ", query, flags=re.IGNORECASE) if attribute else query
    return max(names_in(bare) or names_in(query), key=len)


def attribute_of(query: str) -> Attribute | None:
    """What a query asks for, where it is one of `ATTRIBUTES`."""
    return next((each for each in ATTRIBUTES if re.search(each.asked, query, re.IGNORECASE)), None)
