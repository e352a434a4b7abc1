import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewards.match_table import DIFFERENT, SAME
from vlagent.rewards.match import match

CASES = [json.loads(line) for line in Path("tests/cases/answer_match.jsonl").read_text().splitlines()]


def pairs(table):
    return [pytest.param(a, b, id=f"{kind}: {a!r} / {b!r}") for kind, rows in table.items() for a, b in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['answer']} / {case['ground_truth']}")
def test_every_given_case_has_its_value(case):
    assert match(case["answer"], case["ground_truth"]).matched is case["match"]


@pytest.mark.parametrize(("answer", "truth"), pairs(SAME))
def test_the_same_answer_written_otherwise_matches_in_both_directions(answer, truth):
    assert match(answer, [truth]).matched
    assert match(truth, [answer]).matched


@pytest.mark.parametrize(("answer", "truth"), pairs(DIFFERENT))
def test_another_answer_never_matches_in_either_direction(answer, truth):
    assert not match(answer, [truth]).matched
    assert not match(truth, [answer]).matched


def test_the_tables_are_wide():
    assert sum(map(len, SAME.values())) >= 150
    assert sum(map(len, DIFFERENT.values())) >= 150


@pytest.mark.parametrize(
    ("answer", "truth", "rule"),
    [
        ("Paris", "paris", "text"),
        ("eighteen", "18", "number"),
        ("5km", "5000 m", "amount"),
        ("30/9/1997", "September 30, 1997", "date"),
        ("10:30 pm", "22:30", "time"),
        ("79 AD", "AD 79", "era"),
        ("2015-16", "2015/16", "season"),
        ("1990 to 1995", "1990-1995", "range"),
        ("a, b and c", "a; b; c", "list"),
    ],
)
def test_the_result_names_the_rule_and_the_truth_that_matched(answer, truth, rule):
    result = match(answer, ["something else", truth])
    assert (result.rule, result.truth) == (rule, truth)


def test_no_truth_matches_nothing():
    assert not match("Paris", []).matched


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_two_texts_are_compared_without_an_exception_and_alike_both_ways(a, b):
    assert match(a, [b]).matched is match(b, [a]).matched


@given(st.text(alphabet=string.ascii_letters + string.digits + " ", min_size=1, max_size=30))
@settings(max_examples=200, deadline=None)
def test_a_text_with_anything_left_in_it_matches_itself(text):
    assert match(text, [text]).matched is bool(text.strip())


@given(st.integers(min_value=0, max_value=10**12), st.integers(min_value=0, max_value=10**12))
@settings(max_examples=200, deadline=None)
def test_numbers_match_exactly_when_they_are_equal(a, b):
    assert match(f"{a:,}", [str(b)]).matched is (a == b)
    assert match(f"{a:,}", [str(a)]).matched


def test_very_long_answers_are_compared_in_little_time():
    assert not match("1 " * 50_000, ["1"]).matched
    assert not match("a, " * 50_000, ["a"]).matched
    assert not match("1." * 200 + "x", ["1"]).matched
