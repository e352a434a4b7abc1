"""What is true in one split of the toy world: a year, a city and an owner for every brand and place, drawn anew."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from vlagent.toy.lexicon import CITIES, OWNERS, PLACE_KINDS, YEARS

Relation = Literal["year", "city", "owner"]
RELATIONS: tuple[Relation, ...] = ("year", "city", "owner")

_PHRASES = {
    ("brand", "year"): "was founded in",
    ("place", "year"): "was opened in",
    ("brand", "city"): "is based in",
    ("place", "city"): "stands in",
    ("brand", "owner"): "is owned by",
    ("place", "owner"): "is owned by",
}
_QUERY_WORDS = {
    ("brand", "year"): "founded",
    ("place", "year"): "opened",
    ("brand", "city"): "based",
    ("place", "city"): "stands",
    ("brand", "owner"): "owned",
    ("place", "owner"): "owned",
}
_VALUES: dict[Relation, Sequence[str]] = {"year": [str(year) for year in YEARS], "city": CITIES, "owner": OWNERS}


def entity_type(name: str) -> Literal["brand", "place"]:
    """A place ends in a word such as Tower; everything else is a brand."""
    return "place" if name.rsplit(" ", 1)[-1] in PLACE_KINDS else "brand"


def sentence(name: str, relation: Relation, value: str) -> str:
    """How a passage states a fact: "BADKIL was founded in 1987."."""
    return f"{name} {_PHRASES[entity_type(name), relation]} {value}."


def search_words(name: str, relation: Relation) -> str:
    """The text search that finds that passage: "BADKIL founded"."""
    return f"{name} {_QUERY_WORDS[entity_type(name), relation]}"


def value_in(text: str, name: str, relation: Relation) -> str | None:
    """What a text states about a name, or None. Of "Old Belmont Tower" it says nothing about Belmont Tower."""
    phrase = re.escape(f"{name} {_PHRASES[entity_type(name), relation]}")
    found = re.search(rf"(?<!Old )\b{phrase} ([^.\n]+)\.", text)
    return found.group(1).strip() if found else None


@dataclass(frozen=True)
class Facts:
    """Values by name and relation."""

    values: dict[str, dict[Relation, str]]

    def value(self, name: str, relation: Relation = "year") -> str:
        return self.values[name][relation]

    def year(self, name: str) -> int:
        return int(self.values[name]["year"])

    def sentence(self, name: str, relation: Relation = "year") -> str:
        return sentence(name, relation, self.value(name, relation))


def draw_facts(rng: random.Random, *groups: Sequence[str]) -> Facts:
    """Draw every fact anew. Within a group (brands, places) values repeat as little as can be: no answer is likely."""
    values: dict[str, dict[Relation, str]] = {}
    for names in groups:
        columns = {relation: _spread(rng, _VALUES[relation], len(names)) for relation in RELATIONS}
        for i, name in enumerate(names):
            values[name] = {relation: columns[relation][i] for relation in RELATIONS}
    return Facts(values)


def possible_values(relation: Relation) -> Sequence[str]:
    """Everything that a question about this relation can have for an answer."""
    return _VALUES[relation]


def _spread(rng: random.Random, values: Sequence[str], count: int) -> list[str]:
    drawn: list[str] = []
    while len(drawn) < count:
        drawn += rng.sample(list(values), min(len(values), count - len(drawn)))
    return drawn
