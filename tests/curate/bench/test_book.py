"""Questions as people save, review, dispute and settle them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.curate.bench.conftest import FINISHED, SIGN, agree, write
from vlagent.curate.bench import book
from vlagent.curate.bench.folder import Bench
from vlagent.errors import UserError


def where(bench: Bench, name: str) -> str:
    return book.standing(bench.items()[name], bench.reviews()[name], bench.config)


def test_every_save_is_kept_and_the_last_one_counts(bench: Bench) -> None:
    item = book.create(bench, "ann", next(iter(bench.pictures())))
    for revision, text in enumerate(("Who?", "Who is it?"), 1):
        book.save(bench, "ann", item.id, revision, {"question": text})
    assert [each.question for each in bench.history("ann")] == ["", "Who?", "Who is it?"]
    assert bench.items()[item.id].question == "Who is it?"


def test_saving_the_same_again_writes_nothing(bench: Bench) -> None:
    item = write(bench)
    book.save(bench, "ann", item.id, 2, dict(FINISHED))
    assert len(bench.history("ann")) == 2


def test_a_save_from_a_second_window_is_refused_and_loses_nothing(bench: Bench) -> None:
    item = write(bench)
    with pytest.raises(book.Stale, match="revision 2"):
        book.save(bench, "ann", item.id, 1, {"question": "Old window?"})
    assert bench.items()[item.id] == item


def test_a_torn_last_line_of_a_kill_is_dropped(bench: Bench) -> None:
    item = write(bench)
    path = bench.annotations_of("ann")
    path.write_bytes(path.read_bytes() + b'{"version":1,"id":"half')
    saved = book.save(bench, "ann", item.id, 2, {"notes": "after the kill"}).item
    assert bench.history("ann")[-1] == saved


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"box": None}, "draw the box"),
        ({"box": (0, 0, 400, 300)}, "25.0% of the picture, 5% at most"),
        ({"question": " "}, "write the question"),
        ({"answers": ("", " ")}, "at least one answer"),
        ({"question": "Does the Harbour Trust run it?"}, "stands in the question"),
        ({"domain": "Sport"}, "one of the domains"),
        ({"tools": ()}, "choose the tools"),
        ({"tools": ("telescope",)}, "choose the tools"),
        ({"evidence": ()}, "give a link"),
    ],
)
def test_what_is_missing_is_named_and_the_rest_is_kept_as_a_draft(bench: Bench, change: Any, problem: str) -> None:
    item = book.create(bench, "ann", next(iter(bench.pictures())))
    saved = book.save(bench, "ann", item.id, 1, {**FINISHED, **change, "notes": "kept"})
    assert len(saved.problems) == 1
    assert problem in saved.problems[0]
    assert (bench.items()[item.id].state, bench.items()[item.id].notes) == ("draft", "kept")


def test_a_question_that_needs_no_search_needs_no_link(bench: Bench) -> None:
    assert write(bench, tools=("image_crop",), evidence=()).state == "done"


def test_a_box_is_cut_at_the_edge_of_the_picture(bench: Bench) -> None:
    assert write(bench, box=(780, 590, 5000, 5000)).box == (780, 590, 800, 600)


def test_several_people_never_get_the_same_name_for_a_question(bench: Bench) -> None:
    picture = next(iter(bench.pictures()))
    names = [book.create(bench, who, picture).id for who in ("ann", "bob", "ann")]
    assert len(set(names)) == 3


def test_two_agreeing_reviews_are_needed_and_the_authors_own_is_none(bench: Bench) -> None:
    item = write(bench)
    agree(bench, item, "bob")
    assert where(bench, item.id) == "waiting"
    with pytest.raises(UserError, match="author"):
        book.answer_blind(bench, "ann", item.id, "Harbour Trust")
    agree(bench, item, "cyd")
    assert where(bench, item.id) == "agreed"


def test_a_verdict_needs_an_own_answer_first_and_that_answer_stays(bench: Bench) -> None:
    item = write(bench)
    with pytest.raises(UserError, match="your own answer"):
        book.review(bench, "bob", item.id, "agree")
    first = book.answer_blind(bench, "bob", item.id, "Port Police")
    second = book.answer_blind(bench, "bob", item.id, "Harbour Trust")
    assert (second, second.matched) == (first, False)
    assert book.answer_blind(bench, "cyd", item.id, "the Harbour Trust").matched


def test_a_dispute_needs_a_reason_and_holds_the_question_back(bench: Bench) -> None:
    item = write(bench)
    agree(bench, item, "bob", "cyd")
    book.answer_blind(bench, "dan", item.id, "nobody")
    with pytest.raises(UserError, match="say why"):
        book.review(bench, "dan", item.id, "dispute")
    book.review(bench, "dan", item.id, "dispute", "two piers have such a sign")
    assert where(bench, item.id) == "disputed"
    assert book.tally(bench).disputes == {item.id: ("dan: two piers have such a sign",)}


@pytest.mark.parametrize(("word", "end"), [("keep", "agreed"), ("drop", "dropped")])
def test_only_somebody_new_settles_a_dispute(bench: Bench, word: Any, end: str) -> None:
    item = write(bench)
    with pytest.raises(UserError, match="only a disputed question"):
        book.review(bench, "eve", item.id, word, "early")
    book.answer_blind(bench, "bob", item.id, "nobody")
    book.review(bench, "bob", item.id, "dispute", "unclear")
    with pytest.raises(UserError, match="only a disputed question"):
        book.review(bench, "bob", item.id, word, "mine")
    book.review(bench, "eve", item.id, word, "looked it up")
    assert where(bench, item.id) == end


def test_a_changed_question_must_be_reviewed_anew_but_a_note_changes_nothing(bench: Bench) -> None:
    item = write(bench)
    agree(bench, item, "bob", "cyd")
    book.save(bench, "ann", item.id, 2, {"notes": "only a note"})
    assert where(bench, item.id) == "agreed"
    book.save(bench, "ann", item.id, 3, {"box": (SIGN[0], SIGN[1], SIGN[2], SIGN[3] + 1)})
    assert where(bench, item.id) == "waiting"


def test_a_deleted_question_is_gone_and_its_lines_stay(bench: Bench) -> None:
    item = write(bench)
    book.save(bench, "ann", item.id, 2, {"state": "deleted"})
    assert bench.items() == {}
    assert len(bench.history("ann")) == 3


def test_agreement_is_that_of_hand_computed_verdicts(bench: Bench) -> None:
    items = [write(bench, picture=number) for number in range(3)]
    for item in items[:2]:
        agree(bench, item, "bob", "cyd")
    for reviewer in ("bob", "cyd"):
        book.answer_blind(bench, reviewer, items[2].id, "no idea")
        book.review(bench, reviewer, items[2].id, "dispute", "unclear")
    end = book.tally(bench)
    assert (end.reviews, end.blind_matched) == (6, 4)
    assert end.agreement is not None
    assert end.agreement.alpha == 1.0
    assert end.agreement.pairs[0].kappa == 1.0


@pytest.mark.parametrize("name", ["", "../x", "a b", "ä", "x" * 41])
def test_names_that_are_no_file_names_are_refused(bench: Bench, name: str) -> None:
    with pytest.raises(UserError):
        book.create(bench, name, next(iter(bench.pictures())))
