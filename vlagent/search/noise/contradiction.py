"""Results that state different values for the asked attribute, and for no other: "based in" is not "born in"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vlagent.search.noise.attributes import Attribute, attribute_of, subject_of
from vlagent.search.noise.names import speaks_of
from vlagent.search.sentences import sentences
from vlagent.search.words import fold
from vlagent.types import Hit


@dataclass(frozen=True)
class Contradiction:
    """Different values for one attribute."""

    attribute: str
    values: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Value -> the hits (from 0) that state it."""


def stated_values(query: str, hits: Sequence[Hit]) -> Contradiction | None:
    """What each hit states for the asked attribute of what the query names; None where nothing known is asked."""
    attribute = attribute_of(query)
    if attribute is None:
        return None
    values: dict[str, list[int]] = {}
    for number, hit in enumerate(hits):
        for value in dict.fromkeys(_values(attribute, query, hit)):
            values.setdefault(value, []).append(number)
    return Contradiction(attribute.name, {value: tuple(numbers) for value, numbers in values.items()})


def contradiction(query: str, hits: Sequence[Hit]) -> Contradiction | None:
    """Where at least two values are stated by different hits."""
    found = stated_values(query, hits)
    if found is None or len(found.values) < 2 or len(set(found.values.values())) < 2:
        return None
    return found


def _values(attribute: Attribute, query: str, hit: Hit) -> Iterator[str]:
    """From sentences that name what is asked about, or say "it" under a title that does."""
    name = subject_of(query)
    titled = speaks_of(hit.source.title, name, query)
    for sentence in sentences(hit.text):
        subject = speaks_of(sentence, name, query) or (titled and re.match(r"(?:It|He|She|They|The)\b", sentence))
        if not subject:
            continue
        for rule in attribute.stated:
            for match in re.finditer(rule, sentence):
                yield _plain(match["value"])


def _plain(value: str) -> str:
    """One form of a value: "1,200" and "1200", "the Harbour Trust" and "Harbour Trust" are the same."""
    value = re.sub(r"^the\s+", "", " ".join(value.split()), flags=re.IGNORECASE)
    return re.sub(r"(?<=\d)[,  ](?=\d{3})", "", fold(value)).strip(" .,'’")
