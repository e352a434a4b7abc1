"""What a machine finds: questions that need no picture or no tools, evidence without the answer, leaks; and pass@8."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.curate.bench.conftest import player, scene, write
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.curate.bench import book
from vlagent.curate.bench.checks import Checker, accept, check, holds
from vlagent.curate.bench.difficulty import measure, to_measure
from vlagent.curate.bench.folder import Bench
from vlagent.errors import PermanentError, ServiceError, TransientError, UserError
from vlagent.files import write_atomic
from vlagent.images import probe
from vlagent.search.base import Page
from vlagent.types import Sample

WRONG, RIGHT = "<answer>nobody</answer>", "<answer>Harbour Trust</answer>"


class Killed(Exception):
    """Nothing catches it, like a kill."""


class Asked:
    """A model that counts, and answers by its own rule."""

    def __init__(self, rule: Callable[[ChatRequest], str | ServiceError]) -> None:
        self.rule, self.requests = rule, list[ChatRequest]()

    def __call__(self, request: ChatRequest) -> str | ChatReply:
        said = self.rule(request)
        if isinstance(said, ServiceError):
            raise said
        self.requests.append(request)
        return said


def sees_picture(request: ChatRequest) -> bool:
    return any(message.images for message in request.messages)


async def test_a_question_that_is_answered_without_its_picture_fails(bench: Bench) -> None:
    item = write(bench)
    model = Asked(lambda request: RIGHT if not sees_picture(request) and request.key[2] == 1 else WRONG)
    found = await check(bench, Checker(blind=player(model), no_tools=player(model)))
    assert found.failed == {f"{item.id} blind": "answered without its picture in 1 of 2 tries (Harbour Trust)"}
    assert bench.checks()[item.id]["no_tools"].ok is True
    assert len(model.requests) == 4


async def test_a_question_that_is_answered_without_tools_fails(bench: Bench) -> None:
    item = write(bench)
    model = Asked(lambda request: RIGHT if sees_picture(request) else WRONG)
    found = await check(bench, Checker(blind=player(model), no_tools=player(model)))
    assert list(found.failed) == [f"{item.id} no_tools"]


async def test_nothing_is_paid_for_twice_and_another_model_is_asked_anew(bench: Bench) -> None:
    item = write(bench)
    model = Asked(lambda _: WRONG)
    for _ in range(2):
        await check(bench, Checker(blind=player(model)))
    assert len(model.requests) == 2
    await check(bench, Checker(blind=player(model, "another")))
    assert len(model.requests) == 4
    book.save(bench, "ann", item.id, item.revision, {"question": "Who keeps the pier with the small sign?"})
    await check(bench, Checker(blind=player(model)))
    assert len(model.requests) == 6


async def test_an_outage_leaves_a_check_open_and_the_next_call_asks_only_for_the_rest(bench: Bench) -> None:
    item = write(bench)
    down = Asked(lambda request: WRONG if request.key[2] == 0 else TransientError("model", "no answer"))
    found = await check(bench, Checker(blind=player(down)))
    assert found.undecided == {f"{item.id} blind": "only 1 of 2 tries could be scored"}
    up = Asked(lambda _: WRONG)
    found = await check(bench, Checker(blind=player(up)))
    assert (found.undecided, found.failed) == ({}, {})
    assert [request.key[2] for request in up.requests] == [1]


class Pages:
    """A web of a few pages."""

    def __init__(self, **texts: str | ServiceError) -> None:
        self.texts = texts

    async def read(self, url: str) -> Page:
        said = self.texts[url.rsplit("/", 1)[1]]
        if isinstance(said, ServiceError):
            raise said
        return Page(url=url, title="Piers", text=said)


@pytest.mark.parametrize(
    ("texts", "ok"),
    [
        ({"a": "It is run by the HARBOUR trust.", "b": "x"}, True),
        ({"a": "x", "b": "Harbour Trust"}, True),
        ({"a": "the Harbour Police", "b": "Harbour Trustees"}, False),
        ({"a": TransientError("page", "no answer"), "b": "x"}, None),
        ({"a": TransientError("page", "no answer"), "b": "Harbour Trust"}, True),
        ({"a": PermanentError("page", "gone"), "b": "x"}, False),
    ],
)
async def test_one_link_that_holds_an_answer_is_enough(
    bench: Bench, texts: dict[str, str | ServiceError], ok: bool | None
) -> None:
    item = write(bench, evidence=("https://example.org/a", "https://example.org/b"))
    await check(bench, Checker(pages=Pages(**texts)))
    assert bench.checks()[item.id]["evidence"].ok is ok


async def test_somebody_can_overrule_a_failed_check_with_a_reason_until_the_question_changes(bench: Bench) -> None:
    item = write(bench, evidence=("https://example.org/a",))
    pages = Checker(pages=Pages(a="in other words"))
    await check(bench, pages)
    with pytest.raises(UserError, match="no failed check of that name; failed there: evidence"):
        accept(bench, item.id, "blind", "it is fine")
    with pytest.raises(UserError, match="say why"):
        accept(bench, item.id, "evidence", " ")
    accept(bench, item.id, "evidence", "table 2 says it")
    assert (await check(bench, pages)).failed == {}
    book.save(bench, "ann", item.id, item.revision, {"answers": ("The Trust",)})
    assert list((await check(bench, pages)).failed) == [f"{item.id} evidence"]


async def test_evidence_may_be_a_file_of_the_benchmark(bench: Bench) -> None:
    item, lost = write(bench), write(bench, picture=1, evidence=("lost.txt",))
    write_atomic(bench.folder / "evidence.txt", "Since 1931 the Harbour Trust runs it.")
    found = await check(bench, Checker(pages=Pages()))
    assert bench.checks()[item.id]["evidence"].ok is True
    assert "lost.txt" in found.failed[f"{lost.id} evidence"]


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("opened on 3 June 2025 by", "2025-06-03", True),
        ("opened on June 3, 2025.", "3 June 2025", True),
        ("it cost 1,200 in all", "1200", True),
        ("it cost 1,201 in all", "1200", False),
        ("Parisian cafés", "Paris", False),
        ("", "Paris", False),
        ("anything", "", False),
    ],
)
def test_answers_are_found_as_words_numbers_and_dates(text: str, answer: str, held: bool) -> None:
    assert holds(text, answer) is held


async def test_leaks_are_found_in_other_questions_and_in_training_data(bench: Bench, tmp_path: Path) -> None:
    item = write(bench)
    fine = await check(bench, Checker())
    assert fine.failed == {}
    picture = probe(scene(tmp_path / "trained.png", 0))
    same = Sample(id="t1", source="train", question="another", images=(picture,))
    asks = Sample(id="t2", source="train", question=item.question, answers=("the harbour trust", "Harbour Trust"))
    assert "picture is that of train: t1" in (await check(bench, Checker(train=[same]))).failed[f"{item.id} leak"]
    assert "t2 asks the same" in (await check(bench, Checker(train=[asks]))).failed[f"{item.id} leak"]
    write(bench, "bob", question="What stands beside the Harbour Trust?", answers=("A crane",))
    book.save(bench, "ann", item.id, item.revision, {"question": "Who runs this pier?"})
    found = await check(bench, Checker())
    assert "about the same picture" in found.failed[f"{item.id} leak"]


# ---- difficulty


async def test_a_question_is_hard_if_none_of_eight_answers_is_right(bench: Bench) -> None:
    hard, easy = write(bench), write(bench, picture=1, answers=("Port Police",))
    lucky = Asked(lambda request: "<answer>Port Police</answer>" if request.key[2] == 7 else WRONG)
    end = await measure(bench, player(lucky, workflow="agent"))
    assert (end.hard, end.easy, end.undecided) == (1, 1, ())
    known = bench.difficulty()
    assert (known[hard.id].level, known[hard.id].right, known[hard.id].k) == ("hard", 0, 8)
    assert (known[easy.id].level, known[easy.id].right) == ("easy", 1)
    assert len(lucky.requests) == 16
    assert (await measure(bench, player(lucky, workflow="agent"))).known == 2
    assert len(lucky.requests) == 16


async def test_an_outage_is_never_hard(bench: Bench) -> None:
    item = write(bench)
    down = Asked(lambda request: WRONG if int(request.key[2]) < 5 else TransientError("model", "no answer"))
    end = await measure(bench, player(down, workflow="agent"))
    assert (end.undecided, bench.difficulty()) == ((item.id,), {})
    up = Asked(lambda _: WRONG)
    assert (await measure(bench, player(up, workflow="agent"))).hard == 1
    assert sorted(int(request.key[2]) for request in up.requests) == [5, 6, 7]


async def test_one_right_answer_makes_it_easy_whatever_is_missing(bench: Bench) -> None:
    write(bench)
    partly = Asked(lambda request: RIGHT if request.key[2] == 0 else TransientError("model", "no answer"))
    assert (await measure(bench, player(partly, workflow="agent"))).easy == 1


async def test_a_changed_question_and_another_k_are_measured_anew(bench: Bench) -> None:
    item = write(bench)
    model = player(Asked(lambda _: WRONG), workflow="agent")
    await measure(bench, model)
    assert to_measure(bench, model) == []
    rules = bench.folder / "bench.toml"
    write_atomic(rules, rules.read_text().replace("k = 8", "k = 3"))
    assert len(to_measure(bench, model)) == 1
    write_atomic(rules, rules.read_text().replace("k = 3", "k = 8"))
    book.save(bench, "ann", item.id, item.revision, {"answers": ("The Trust",)})
    assert len(to_measure(bench, model)) == 1


async def test_a_kill_in_the_middle_of_an_episode_repeats_no_answer(bench: Bench) -> None:
    write(bench)
    call = (
        '<tool_call>{"name": "image_crop", "arguments": {"bbox": [100, 100, 300, 300], "image_index": 0}}</tool_call>'
    )
    asked: list[tuple[object, ...]] = []

    def rule(request: ChatRequest) -> str:
        turn = sum(message.role == "assistant" for message in request.messages)
        if len(asked) == 9:
            raise Killed
        asked.append(request.key)
        return call if turn == 0 else WRONG

    with pytest.raises(Killed):
        await measure(bench, player(rule, workflow="agent"))
    again: list[tuple[object, ...]] = []

    def after(request: ChatRequest) -> str:
        again.append(request.key)
        return call if sum(message.role == "assistant" for message in request.messages) == 0 else WRONG

    assert (await measure(bench, player(after, workflow="agent"))).hard == 1
    assert not set(asked) & set(again)
    assert len(asked) + len(again) == 16


async def test_evidence_with_other_links_is_looked_at_anew_also_where_a_person_overruled_it(bench: Bench) -> None:
    item = write(bench, evidence=("lost.txt",))
    pages = Pages()
    assert f"{item.id} evidence" in (await check(bench, Checker(pages=pages))).failed
    accept(bench, item.id, "evidence", "it is in the book")
    (bench.folder / "found.txt").write_text("It is run by the Harbour Trust.")
    item = book.save(bench, "ann", item.id, item.revision, {"evidence": ["found.txt"]}).item
    assert "evidence" not in bench.checks()[item.id]
    assert (await check(bench, Checker(pages=pages))).failed == {}
    assert bench.checks()[item.id]["evidence"].by == ""


async def test_a_later_question_about_the_picture_can_give_an_answer_away(bench: Bench) -> None:
    first = write(bench)
    assert (await check(bench, Checker())).failed == {}
    write(bench, question="What colour has the flag of the Harbour Trust?", answers=("blue",))
    assert list((await check(bench, Checker())).failed) == [f"{first.id} leak"]


async def test_a_leak_into_training_data_is_not_forgotten_by_a_call_without_that_data(bench: Bench) -> None:
    item = write(bench)
    train = [Sample(id="t1", source="train", question=item.question, answers=item.answers)]
    for checker in (Checker(train=train), Checker()):
        assert "t1 asks the same" in (await check(bench, checker)).failed[f"{item.id} leak"]
    other = [train[0].model_copy(update={"question": "Whose flag is it?"})]
    assert (await check(bench, Checker(train=other))).failed == {}
