from __future__ import annotations

import random
from collections import Counter

import pytest

from vlagent.toy.corpus import DISTRACTORS, corpus
from vlagent.toy.episodes import FactSearch, Recipe, draw_episode
from vlagent.toy.facts import RELATIONS, draw_facts, search_words, sentence, value_in
from vlagent.toy.lexicon import BRANDS, KINDS, OPEN_BRANDS, Kind, places_of
from vlagent.toy.pictures import draw_picture, titles
from vlagent.toy.questions import combine
from vlagent.toy.splits import make_split, row_of, scene_of, slots


def test_a_fact_is_read_back_from_its_sentence_and_not_from_a_similar_one() -> None:
    for name in ("BOLBAK", "Belmont Tower"):
        for relation in RELATIONS:
            text = f"[1] x\n{sentence(name, relation, '1987')} More."
            assert value_in(text, name, relation) == "1987"
    assert value_in("Old Belmont Tower was opened in 1990.", "Belmont Tower", "year") is None
    assert value_in("Belmont Tower Hotel was opened in 1990.", "Belmont Tower", "year") is None
    assert value_in("BOLBAKER was founded in 1990.", "BOLBAK", "year") is None
    assert value_in("BOLBAK was founded in 1987.", "BOLBAK", "city") is None


def test_years_repeat_as_little_as_can_be_within_a_group() -> None:
    facts = draw_facts(random.Random(0), BRANDS, [f"p{i}" for i in range(140)])
    assert len({facts.year(name) for name in BRANDS}) == len(BRANDS)
    assert max(Counter(facts.year(f"p{i}") for i in range(140)).values()) == 2


def test_facts_are_drawn_anew_for_every_split_and_seed() -> None:
    val, test, other = (make_split(name, seed, 2, 640).facts for name, seed in (("val", 1), ("test", 1), ("test", 2)))
    same = sum(val.year(name) == test.year(name) for name in BRANDS)
    assert same <= 4
    assert sum(other.year(name) == test.year(name) for name in BRANDS) <= 4


def test_combine_is_the_difference_or_the_earlier_year() -> None:
    assert combine(1950, 1987, "difference") == combine(1987, 1950, "difference") == "37"
    assert combine(1950, 1987, "earlier") == combine(1987, 1950, "earlier") == "1950"


@pytest.mark.parametrize("kind", KINDS)
def test_an_episode_needs_exactly_the_tools_of_its_kind(kind: Kind) -> None:
    wanted = {
        "read": ["image_crop"],
        "fact": ["text_search"],
        "place": ["image_search", "text_search"],
        "brand": ["image_crop", "text_search"],
        "both": ["image_crop", "image_search", "text_search", "text_search"],
    }[kind]
    for seed in range(4):
        question = draw_episode(random.Random(seed), kind).question
        assert [step.name for step in question.steps] == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_never_gives_its_answer_or_a_name_to_be_found_away(kind: Kind) -> None:
    for seed in range(10):
        episode = draw_episode(random.Random(seed), kind, Recipe(level=3))
        hidden = [episode.question.answer, episode.question.place, episode.question.brand]
        if kind != "both":
            assert not any(name and name in episode.question.text for name in hidden)
        assert (episode.question.subject is None) == (kind != "fact")


def test_an_episode_is_the_same_for_the_same_seed_and_its_facts_differ_for_another() -> None:
    one, again, other = (draw_episode(random.Random(seed), "brand") for seed in (4, 4, 5))
    assert one.question == again.question
    assert one.scene.image.tobytes() == again.scene.image.tobytes()
    assert one.facts.values == again.facts.values != other.facts.values


def test_the_search_in_memory_puts_the_asked_fact_first() -> None:
    facts = draw_episode(random.Random(0), "fact").facts
    for name in (*BRANDS[:5], *places_of("train", 0)[:5]):
        for relation in RELATIONS:
            assert FactSearch(facts).find(search_words(name, relation))[0].text == facts.sentence(name, relation)
    assert FactSearch(facts).find("nothing of the kind") == []


def test_the_earlier_form_asks_for_one_of_the_two_years() -> None:
    episode = draw_episode(random.Random(1), "both", Recipe(form="earlier"))
    question = episode.question
    years = {episode.facts.year(question.brand or ""), episode.facts.year(question.place or "")}
    assert int(question.answer) == min(years)


def test_the_corpus_states_every_fact_once_among_two_thousand_others() -> None:
    split = make_split("test", 1, 2, 640)
    bodies = [row["contents"].split("\n", 1)[1] for row in corpus(split.facts, 1, "test")]
    facts = {split.facts.sentence(name, relation) for name in split.facts.values for relation in RELATIONS}
    assert facts <= set(bodies)
    assert len(bodies) == len(set(bodies)) == len(facts) + DISTRACTORS
    assert not [body for body in bodies if any(name in body for name in OPEN_BRANDS)]
    for name in (*BRANDS, *split.places):
        assert len([body for body in bodies if value_in(body, name, "year")]) == 1


def test_distractors_come_close_to_places_and_brands() -> None:
    split = make_split("test", 1, 2, 640)
    text = "\n".join(row["contents"] for row in corpus(split.facts, 1, "test"))
    place = split.places[0]
    assert f"{place} was repainted in" in text
    assert any(
        f"{near} was opened in" in text
        for near in (f"{place} Hotel", f"{place} Road", f"Old {place}", f"{place} Annex")
    )


@pytest.mark.parametrize(("name", "level"), [("test", 2), ("test_open", 2), ("test", 3)])
def test_no_answer_of_a_kind_is_given_by_a_tenth_of_its_rows(level: int, name: str) -> None:
    split = make_split(name, 5, level, 320)
    answers: dict[str, Counter[str]] = {}
    for slot in slots(split, 24):
        row = row_of(split, slot, scene_of(split, slot))
        answers.setdefault(row["kind"], Counter())[row["reward_model"]["ground_truth"]] += 1
    assert {kind: counter.total() for kind, counter in answers.items()} == dict.fromkeys(KINDS, 24)
    assert all(max(counter.values()) / 24 < 0.1 for counter in answers.values())


def test_level_three_asks_for_cities_and_owners_too() -> None:
    relations = {level: {slot.relation for slot in slots(make_split("test", 5, level, 320), 12)} for level in (2, 3)}
    assert relations == {2: {"year"}, 3: set(RELATIONS)}


def test_index_pictures_hold_each_place_near_duplicates_and_strangers() -> None:
    places = places_of("test", 1)
    names = titles(places, 1)
    assert set(places) < set(names)
    assert len(names) == len(set(names))
    assert any((name.startswith(places[0]) and name != places[0]) or name == f"Old {places[0]}" for name in names)
    assert draw_picture(names[0], 1, "test").tobytes() == draw_picture(names[0], 1, "test").tobytes()
    assert draw_picture(names[0], 1, "test").tobytes() != draw_picture(names[0], 1, "val").tobytes()
