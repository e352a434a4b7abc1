"""Contradictions, namesakes and queries that name nothing: measured on a toy world with planted distractors."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest

from vlagent.search.base import TextQuery
from vlagent.search.live_config import NoiseConfig
from vlagent.search.noise import NAMESAKE, NoiseChecks
from vlagent.search.noise.contradiction import contradiction, stated_values
from vlagent.search.noise.entities import ordered
from vlagent.search.noise.grounding import ungrounded
from vlagent.search.noise.names import names_in, speaks_of
from vlagent.search.text_build import index_text
from vlagent.search.text_index import TextIndex
from vlagent.toy.corpus import corpus
from vlagent.toy.facts import RELATIONS, Facts, Relation, draw_facts, possible_values, search_words, sentence
from vlagent.toy.lexicon import BRANDS, places_of
from vlagent.types import Hit, ImageRef, Source

PICTURE = ImageRef(path="/x.png", width=8, height=8)


def hit(title: str, text: str, *, shown: bool = False) -> Hit:
    return Hit(source=Source(title=title), text=text, thumbnail=PICTURE if shown else None)


@dataclass
class Toy:
    """An index over a toy corpus, with a second value planted for every other fact."""

    index: TextIndex
    facts: Facts
    planted: dict[tuple[str, Relation], str]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    rng, folder = random.Random(5), tmp_path_factory.mktemp("noise")
    names = [*list(BRANDS)[:25], *places_of("train", 0)[:25]]
    facts = draw_facts(rng, names[:25], names[25:])
    rows = [row["contents"] for row in corpus(facts, 0, "train")]
    keys = [(name, relation) for name in names for relation in RELATIONS]
    planted = {}
    for name, relation in keys[::2]:
        others = [value for value in possible_values(relation) if value != facts.value(name, relation)]
        planted[name, relation] = rng.choice(others)
        rows.append(f"{name} (archive)\n{sentence(name, relation, planted[name, relation])}")
    lines = [f'{{"id": "{i}", "contents": {_json(row)}}}\n' for i, row in enumerate(rows)]
    (folder / "corpus.jsonl").write_text("".join(lines))
    index_text([folder / "corpus.jsonl"], folder / "index")
    return Toy(TextIndex(folder / "index" / "text"), facts, planted)


def _json(text: str) -> str:
    import json

    return json.dumps(text)


async def test_planted_contradictions_are_flagged_and_nothing_else_is(toy: Toy) -> None:
    """Precision and recall over 150 facts, half of them with a second value, among the corpus's own distractors."""
    found = wrong = asked = 0
    for name in toy.facts.values:
        for relation in RELATIONS:
            query = search_words(name, relation)
            hits = await toy.index.search(TextQuery(text=query, top_k=5))
            flagged = contradiction(query, hits) is not None
            seen = sum(hit.text.startswith(sentence(name, relation, "")[:-2].strip()) for hit in hits) > 1
            asked += (name, relation) in toy.planted and seen
            found += flagged and (name, relation) in toy.planted and seen
            wrong += flagged and (name, relation) not in toy.planted
    assert asked > 50
    assert found / asked >= 0.95
    assert wrong / 75 <= 0.03


async def test_what_a_hit_states_is_read_for_the_asked_attribute_only(toy: Toy) -> None:
    right = total = 0
    for name in list(toy.facts.values):
        for relation in RELATIONS:
            if (name, relation) in toy.planted:
                continue
            query = search_words(name, relation)
            found = stated_values(query, await toy.index.search(TextQuery(text=query, top_k=5)))
            total += 1
            right += found is not None and list(found.values) == [
                toy.facts.value(name, relation).lower().removeprefix("the ")
            ]
    assert right / total >= 0.95


async def test_namesakes_go_last_and_the_asked_thing_first(toy: Toy) -> None:
    """First place over planted namesakes that an index would rank first, without and with the switch."""
    rng, plain, checked, total = random.Random(1), 0, 0, 0
    for name in toy.facts.values:
        near = [f"{name} Hotel", f"Old {name}", f"{name} Road"] if " " in name else [_misspelt(name)]
        query = search_words(name, "year")
        hits = [hit(title, sentence(name, "year", "1900").replace(name, title)) for title in near]
        hits.append(hit(name, toy.facts.sentence(name, "year")))
        rng.shuffle(hits)
        total += 1
        plain += hits[0].source.title == name
        ranked = ordered(query, hits, NAMESAKE)
        checked += ranked[0].source.title == name and all(NAMESAKE in other.flags for other in ranked[1:])
    assert plain / total < 0.6
    assert checked / total >= 0.97


def _misspelt(name: str) -> str:
    return name[:2] + ("X" if name[2] != "X" else "Z") + name[3:]


def test_queries_without_the_name_that_was_read_are_named(toy: Toy) -> None:
    right = wrong = 0
    names = list(toy.facts.values)
    for name, other in itertools.pairwise(names):
        seen = [hit(name, "", shown=True)]
        right += not ungrounded(search_words(name, "year"), seen)
        wrong += bool(ungrounded("when was it opened", seen)) and bool(ungrounded(search_words(other, "year"), seen))
        wrong -= not ungrounded(search_words(_misspelt(name), "year"), seen)
    assert right == len(names) - 1
    assert wrong >= 0.9 * (len(names) - 1)


def test_based_in_is_not_born_in() -> None:
    hits = [
        hit("Acme", "Acme is based in Brenmoor. Its founder was born in Quill."),
        hit("Acme history", "Acme was founded in Quill; the founder of Acme was born in Harrow."),
        hit("Acme today", "Acme is headquartered in Brenmoor since 1950."),
    ]
    assert contradiction("Where is Acme based?", hits) is None
    other = hit("Acme news", "Acme is based in Harrow.")
    found = contradiction("Where is Acme based?", [*hits, other])
    assert found
    assert found.values == {"brenmoor": (0, 2), "harrow": (3,)}


@pytest.mark.parametrize(
    ("query", "one", "other"),
    [
        ("When was Belmont Tower opened?", "Belmont Tower was opened on 3 May 1931.", "Belmont Tower opened in 1950."),
        ("Who designed Belmont Tower?", "Belmont Tower was designed by Ada Brandt.", "It was designed by Leo Marsh."),
        ("How tall is Belmont Tower?", "Belmont Tower is 120 metres tall.", "Belmont Tower is 95 m high."),
        ("population of Brenmoor", "The population of Brenmoor is 1,200.", "Brenmoor has a population of 3400."),
        ("Who owns Acme?", "Acme is owned by the Harbour Trust.", "Acme is owned by Northern Rail."),
    ],
)
def test_attributes_of_the_real_world(query: str, one: str, other: str) -> None:
    name = names_in(query)[0]
    assert contradiction(query, [hit(name, one), hit(name, other)])
    assert contradiction(query, [hit(name, one), hit(name, one), hit(name, "It is old.")]) is None


def test_the_same_value_written_otherwise_is_no_contradiction() -> None:
    hits = [hit("Acme", "Acme is owned by the Harbour Trust."), hit("Acme", "Acme is owned by Harbour Trust.")]
    assert contradiction("Who owns Acme?", hits) is None
    hits = [hit("B", "The population of Brenmoor is 1,200."), hit("B", "The population of Brenmoor was 1200.")]
    assert contradiction("population of Brenmoor", hits) is None


def test_names_are_read_from_queries_and_found_in_texts() -> None:
    assert names_in("When was Belmont Tower in Brenmoor opened?") == ["Belmont Tower", "Brenmoor"]
    assert names_in("when was the belmont tower opened") == ["belmont tower opened"]
    assert speaks_of("We visited the Belmont Tower in May.", "Belmont Tower")
    assert not speaks_of("Old Belmont Tower is gone.", "Belmont Tower")
    assert not speaks_of("Belmont Tower (film) is a film.", "Belmont Tower")
    assert speaks_of("Belmont Tower (film) is a film.", "Belmont Tower", "the film Belmont Tower")
    assert speaks_of("Belmont Tower Hotel has rooms.", "Belmont Tower", "hotel at Belmont Tower")


def test_titles_of_the_web_are_no_namesakes() -> None:
    query = "When was Belmont Tower opened?"
    hits = [
        hit("Belmont Tower - Wikipedia", "Belmont Tower was opened in 1931."),
        hit("Visit Belmont Tower | Brenmoor", "The Belmont Tower is open daily."),
        hit("Ten towers to see", "Third is the Belmont Tower, of 1931."),
        hit("Something else", "Nothing about it."),
    ]
    assert ordered(query, hits, NAMESAKE) == hits


def test_each_switch_does_its_own_and_nothing_else() -> None:
    query, seen = "When was this tower opened?", [hit("Belmont Tower", "", shown=True)]
    hits = [
        hit("Old Belmont Tower", "Old Belmont Tower was opened in 1800."),
        hit("Belmont Tower", "Belmont Tower was opened in 1931."),
        hit("Belmont Tower", "Belmont Tower was opened in 1950."),
    ]
    asked = "When was Belmont Tower opened?"
    off = NoiseChecks(NoiseConfig())
    assert off.order(asked, hits) == hits
    assert off.note(query, seen) == ""
    entities = NoiseChecks(NoiseConfig(entities=True)).order(asked, hits)
    assert [each.text for each in entities] == [hits[1].text, hits[2].text, hits[0].text]
    assert [bool(each.flags) for each in entities] == [False, False, True]
    flagged = NoiseChecks(NoiseConfig(contradictions=True)).order(asked, hits)
    assert [bool(each.flags) for each in flagged] == [False, True, True]
    assert "Belmont Tower" in NoiseChecks(NoiseConfig(grounding=True)).note(query, seen)
