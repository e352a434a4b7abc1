import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlagent.rewards.options import stated_option

CASES = [json.loads(line) for line in Path("tests/cases/options.jsonl").read_text().splitlines()]

STATED = [
    ("B)", "B"),
    ("(b)", "B"),
    ("{B}", "B"),
    ("**B**", "B"),
    ("`B`", "B"),
    ("Ｂ", "B"),
    ("$\\boxed{B}$", "B"),
    ("\\boxed{\\mathrm{B}}", "B"),
    ("Option B", "B"),
    ("option b", "B"),
    ("Answer: B", "B"),
    ("Answer: (B) blue", "B"),
    ("**Answer:** B", "B"),
    ('{"answer": "B"}', "B"),
    ("Answer B", "B"),
    ("The correct answer is B.", "B"),
    ("The correct option is (B).", "B"),
    ("The best choice is B", "B"),
    ("The answer is option B, blue.", "B"),
    ("the answer is b.", "B"),
    ("The answer is **B**: blue", "B"),
    ("The answer would be B", "B"),
    ("The answer must be C", "C"),
    ("The answer is A because the cap is white.", "A"),
    ("The answer is A, since it is a red car", "A"),
    ("B is correct.", "B"),
    ("B is the correct answer", "B"),
    ("(B) is right, A is wrong", "B"),
    ("Option A is wrong. Option B is right.", "B"),
    ("Not A but B.", "B"),
    ("A is incorrect, so B.", "B"),
    ("I choose B.", "B"),
    ("I would go with (C).", "C"),
    ("I pick D", "D"),
    ("I think B.", "B"),
    ("It's B", "B"),
    ("Therefore, B.", "B"),
    ("Thus C", "C"),
    ("B: blue", "B"),
    ("B) blue", "B"),
    ("(B) blue", "B"),
    ("B, the blue one", "B"),
    ("B because the cap is blue", "B"),
    ("A. white\nB. blue\nThe answer is B", "B"),
    ("Option A: red. Option B: blue. Final answer: A", "A"),
    ("The answer is A at first sight. Final answer: B", "B"),
    ("The answer is not A. The answer is B.", "B"),
    ("It isn't A. The answer is B.", "B"),
    ("rather than A, the answer is B", "B"),
    ("Ruling out A and C, the answer is D.", "D"),
    ("Neither A nor B, so the answer is C.", "C"),
    ("答案是B", "B"),
    ("答案：B", "B"),
    ("选B。", "B"),
    ("Vitamin C is shown; the answer is D.", "D"),
    ("The answer is B, B.", "B"),
    ("The letter is C", "C"),
    ("<answer>(D)</answer>", "D"),
    ("My final choice is C", "C"),
]

UNSTATED = [
    "",
    "   ",
    "blue",
    "F",
    "The answer is F",
    "A or B",
    "A/B",
    "A and B",
    "AB",
    "ABCD",
    "The answer is A or B",
    "The answer is A, B and C",
    "The answer is A/B.",
    "The answer is A. No, the answer is B.",
    "Both A and B are correct",
    "Option A or option B",
    "neither A nor B",
    "It is not B",
    "B is wrong",
    "The answer is not B",
    "A man rides a bicycle",
    "a dog",
    "The answer is a dog",
    "The answer is A red car",
    "A bottle of vitamin C",
    "The bottle contains vitamin C.",
    "Plan B",
    "The D shirt",
    "Grade A beef",
    "C++",
    "I don't know",
    "(A) white (B) blue",
    "A) white\nB) blue",
    "B-52 bomber",
    "The man's T-shirt",
    "none of the above",
    "All of them",
    "Which is right, A or C?",
    "It can be B or D",
    "D'Artagnan",
    "A+",
    "B-",
    "-A",
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["response"])
def test_every_given_case_has_its_value(case):
    assert stated_option(case["response"], case["letters"]) == case["expected"]


@pytest.mark.parametrize(("response", "letter"), STATED)
def test_a_stated_letter_is_found(response, letter):
    assert stated_option(response, "ABCD") == letter


@pytest.mark.parametrize("response", UNSTATED)
def test_a_response_that_states_no_letter_or_several_gives_none(response):
    assert stated_option(response, "ABCD") is None


def test_only_letters_that_exist_can_be_stated():
    assert stated_option("The answer is E", "ABCDE") == "E"
    assert stated_option("The answer is E", "ABCD") is None


def test_letters_may_come_as_a_dictionary_of_choices():
    assert stated_option("b", {"A": "red", "B": "blue"}) == "B"


def test_letters_that_are_none_are_refused():
    with pytest.raises(ValueError, match="option letters"):
        stated_option("A", "12")


def test_a_very_long_response_is_read_at_its_ends_in_little_time():
    assert stated_option("The answer is B. " + "It is blue. " * 5000, "ABCD") == "B"
    assert stated_option("It is blue. " * 5000 + "The answer is B.", "ABCD") == "B"
    assert stated_option("A, B, " * 20_000, "ABCD") is None


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_known_letter_or_none(text):
    assert stated_option(text, "ABCD") in {"A", "B", "C", "D", None}
