"""The passages of one split: a fact each, among at least 2,000 that are about something else with similar words."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vlagent.randomness import rng_of
from vlagent.toy.facts import RELATIONS, Facts
from vlagent.toy.lexicon import (
    BRANDS,
    CITIES,
    OPEN_BRANDS,
    PASSAGE_BRANDS,
    PLACE_NAMES,
    SPARE_BRANDS,
    YEARS,
    places_of,
)

DISTRACTORS = 2_100
"""Passages of a corpus that answer no question."""

_GIVEN = (
    "Ada Bram Cleo Dirk Elsa Finn Gwen Hugo Ines Jonas Kira Lars Mara Nico Olga Piet Rosa Sven Tilda Uwe Vera Wim "
    "Xenia Yann Zoe Abel Berta Carl Doris Emil Frida Georg Hilde Ivan Judith Karl Lena Max Nora Otto"
)
_TRADES = ("painter", "brewer", "singer", "baker", "sailor", "chemist", "judge", "gardener")
_NEAR_PLACES = ("{} Hotel", "{} Road", "Old {}", "{} Annex")
"""Titles that hold a place's whole name and are another thing."""


@dataclass(frozen=True)
class Passage:
    """A title and one sentence under it."""

    title: str
    text: str

    @property
    def contents(self) -> str:
        """The Search-R1 form."""
        return f"{self.title}\n{self.text}"


def corpus(facts: Facts, seed: int, split: str) -> list[dict[str, str]]:
    """The rows of `corpus.jsonl`, shuffled: {"id", "contents"}. No two passages are the same."""
    rng = rng_of("corpus", seed, split)
    names = list(facts.values)
    true = [Passage(name, facts.sentence(name, relation)) for name in names for relation in RELATIONS]
    passages = dict.fromkeys(true)
    wanted = len(passages) + DISTRACTORS
    for passage in _distractors(rng, names, places_of("", seed)):
        passages[passage] = None
        if len(passages) >= wanted:
            break
    shuffled = list(passages)
    rng.shuffle(shuffled)
    return [{"id": str(i), "contents": passage.contents} for i, passage in enumerate(shuffled)]


def near_places(place: str) -> list[str]:
    """Titles that are easily taken for a place's."""
    return [form.format(place) for form in _NEAR_PLACES]


def _distractors(rng: random.Random, names: Sequence[str], spare_places: Sequence[str]) -> Iterator[Passage]:
    """Without end; the near ones first."""
    places, brands = [n for n in names if " " in n], [n for n in names if " " not in n]
    for place in places:
        yield from _about_place(rng, place)
        yield _opened(rng, rng.choice(near_places(place)))
    for brand in brands:
        yield from _about_brand(rng, brand)
        yield _founded(rng, _misspelt(rng, brand, set(brands)))
    for place in spare_places:
        yield _opened(rng, place)
    for brand in PASSAGE_BRANDS:
        yield _founded(rng, brand)
    while True:
        yield rng.choice((_person, _race, _flood))(rng)


def _year(rng: random.Random) -> int:
    return rng.choice(YEARS)


def _founded(rng: random.Random, name: str) -> Passage:
    return Passage(name, f"{name} was founded in {_year(rng)}.")


def _opened(rng: random.Random, name: str) -> Passage:
    return Passage(name, f"{name} was opened in {_year(rng)}.")


def _about_place(rng: random.Random, place: str) -> Iterator[Passage]:
    yield Passage(place, f"{place} was repainted in {_year(rng)}.")
    yield Passage(f"{place} (visitors)", f"{place} counts {rng.randint(20, 990)} thousand visitors a year.")
    yield Passage(f"{place} (film)", f"{place} is a film by {_full_name(rng)}.")


def _about_brand(rng: random.Random, brand: str) -> Iterator[Passage]:
    yield Passage(brand, f"{brand} changed its logo in {_year(rng)}.")
    yield Passage(f"{brand} (staff)", f"{brand} employs {rng.randint(20, 990)} people.")
    yield Passage(f"{brand} shop", f"A {brand} shop stood in {rng.choice(CITIES)} until {_year(rng)}.")


def _misspelt(rng: random.Random, brand: str, taken: set[str]) -> str:
    """The name with one letter changed; never a name that a question may ask for."""
    known = {*taken, *BRANDS, *OPEN_BRANDS, *SPARE_BRANDS}
    while True:
        at = rng.randrange(len(brand))
        name = brand[:at] + rng.choice("BDFGKLMNPRSTVZ" if brand[at] not in "AEIOU" else "AEIOU") + brand[at + 1 :]
        if name not in known:
            return name


def _full_name(rng: random.Random) -> str:
    return f"{rng.choice(_GIVEN.split())} {rng.choice(PLACE_NAMES)}"


def _person(rng: random.Random) -> Passage:
    name = _full_name(rng)
    return Passage(name, f"{name} was a {rng.choice(_TRADES)} from {rng.choice(CITIES)}, born in {_year(rng)}.")


def _race(rng: random.Random) -> Passage:
    city, year = rng.choice(CITIES), _year(rng)
    return Passage(f"{city} {year} race", f"{_full_name(rng)} won the {city} race of {year}.")


def _flood(rng: random.Random) -> Passage:
    city, year = rng.choice(CITIES), _year(rng)
    return Passage(f"{city} flood of {year}", f"The {city} flood of {year} closed {rng.randint(2, 60)} streets.")
