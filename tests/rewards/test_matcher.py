"""The matcher against answers that a person marked by the paper's rules; the figures stand in docs/guides/judges.md."""

import json
from pathlib import Path

import pytest

from vlagent.bench.agreement import cohen_kappa
from vlagent.rewards.matcher import Matcher, accepts
from vlagent.rewards.rubric import outcome_of
from vlagent.types import Sample, StopReason, Trajectory, Turn

CASES = [json.loads(line) for line in Path("tests/cases/judge_answers.jsonl").read_text().splitlines()]
MARKED = [(bool(accepts(c["answer"], c["answers"], c["question"])), c["right"]) for c in CASES]


def test_the_table_is_wide_and_has_both_kinds():
    assert len(CASES) >= 100
    assert 40 <= sum(right for _, right in MARKED) <= len(MARKED) - 40


@pytest.mark.parametrize("case", [c for c in CASES if not c["right"]], ids=lambda c: f"{c['answer']} / {c['answers']}")
def test_a_wrong_answer_is_never_accepted(case):
    assert accepts(case["answer"], case["answers"], case["question"]) == ""


def test_its_agreement_with_a_person_is_what_the_guide_says():
    agreed = sum(ours == theirs for ours, theirs in MARKED)
    assert agreed / len(MARKED) >= 0.86
    assert cohen_kappa(MARKED) >= 0.72


@pytest.mark.parametrize(
    ("answer", "truth", "why"),
    [
        ("The city in the picture is Paris.", "Paris", "sentence"),
        ("Barack Hussein Obama", "Barack Obama", "name"),
        ("Scarlett Johanson", "Scarlett Johansson", "spelling"),
        ("a dark green", "green", "part"),
        ("1,200,000", "1.2 million", "rule number"),
    ],
)
def test_it_says_by_what_it_accepts(answer, truth, why):
    assert accepts(answer, [truth]) == why


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("Yes, no", "yes"),
        ("I doubt it is Paris", "Paris"),
        ("hardly Paris", "Paris"),
        ("It was denied that Paris", "Paris"),
        ("Wrong: Paris", "Paris"),
        ("None of these: Paris", "Paris"),
        ("the answer is: Rome. Actually Paris", "Rome"),
        ("a fake Rolex", "Rolex"),
        ("without Paris", "Paris"),
        ("anti-Paris", "Paris"),
        ("non-fiction", "fiction"),
        ("blue-red", "red"),
        ("red-brown", "red"),
        ("The New York Times", "New York"),
    ],
)
def test_what_takes_back_or_belongs_to_another_word_is_not_accepted(answer, truth):
    assert accepts(truth, [truth])
    assert accepts(answer, [truth]) == ""


def test_a_number_of_the_question_may_be_repeated_and_another_may_not():
    assert accepts("In 2018 it was 12 windows", ["12"], "How many windows in 2018?")
    assert not accepts("In 2018 it was 12 windows", ["12"], "How many windows?")


async def test_it_marks_where_a_judge_would_and_logs_each_case_once(tmp_path):
    sample = Sample(id="1", source="s", question="Which city?", answers=("Paris",))
    said = Trajectory(
        sample_id="1",
        turns=(Turn(text="", answer="It is Paris."),),
        answer="It is Paris.",
        stop=StopReason.ANSWERED,
    )
    matcher = Matcher(log=tmp_path / "judgements.jsonl")
    assert (await outcome_of(sample, said, None)).outcome == "wrong"
    for _ in range(2):
        scored = await outcome_of(sample, said, matcher)
    assert (scored.outcome, scored.by) == ("right", "judge")
    assert scored.why == "judge: matcher: sentence"
    assert len((tmp_path / "judgements.jsonl").read_text().splitlines()) == 1
