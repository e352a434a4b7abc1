"""Plain rows, as anybody would write them, and as the guide shows them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.data.files import write_picture, write_rows
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "evaluate_your_own.md"


def load(folder: Path, **row):
    write_picture(folder / "a.png")
    write_picture(folder / "b.png", (20, 30))
    return load_samples(write_rows(folder / "mine.jsonl", row))[0]


def test_the_rows_and_the_manifest_of_the_guide_are_read(tmp_path):
    rows, manifest = re.findall(r"```json\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    for name in re.findall(r"photos/\w+\.jpg", rows):
        write_picture(tmp_path / "mine" / name)
    (tmp_path / "mine" / "rows.jsonl").write_text(rows)
    (tmp_path / "manifest.json").write_text(manifest)
    door, year, tower = load_samples(tmp_path / "manifest.json")
    assert load_samples(tmp_path / "mine" / "rows.jsonl") == [door, year, tower]
    assert (door.question, door.answers, len(door.images)) == ("What colour is the door?", ("red",), 1)
    assert (year.answers, len(year.images)) == (("1897", "in 1897"), 2)
    assert tower.question == "Which tower is it?\nA. Clock tower\nB. Bell tower"
    assert (tower.choices, tower.answers) == ({"A": "Clock tower", "B": "Bell tower"}, ("B",))


@pytest.mark.parametrize("choices", [["x", "y"], {"A": "x", "B": "y"}])
def test_choices_are_a_list_or_an_object(tmp_path, choices):
    assert load(tmp_path, question="Which?", choices=choices).choices == {"A": "x", "B": "y"}


def test_columns_of_letters_are_choices(tmp_path):
    sample = load(tmp_path, question="Which?", A="x", B="y", answer="A")
    assert (sample.question, sample.choices) == ("Which?\nA. x\nB. y", {"A": "x", "B": "y"})


@pytest.mark.parametrize(
    ("answer", "read"), [(0, ("0",)), (2.5, ("2.5",)), (["x", 1], ("x", "1")), ("", ()), (None, ())]
)
def test_any_answer_counts_and_nought_is_one(tmp_path, answer, read):
    assert load(tmp_path, question="How many?", answer=answer).answers == read


@pytest.mark.parametrize(("suffix", "mark"), [("tsv", "\t"), ("csv", ",")])
def test_a_table_reads_a_nought_too(tmp_path, suffix, mark):
    write_picture(tmp_path / "a.png")
    lines = (["index", "question", "answer", "image_path"], ["1", "How many?", "0", "a.png"])
    path = tmp_path / f"t.{suffix}"
    path.write_text("".join(mark.join(line) + "\n" for line in lines))
    (sample,) = load_samples(path)
    assert (sample.question, sample.answers) == ("How many?", ("0",))


def test_a_question_needs_neither_picture_nor_id_nor_answer(tmp_path):
    sample = load(tmp_path, question="Why?", note="mine")
    assert (sample.id, sample.images, sample.answers, sample.extra) == ("mine/1", (), (), {"note": "mine"})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"q": "Why?"}, "row 1: prompt: there is none; a row has a `question`"),
        ({"question": "Why?", "image": 3}, "row 1: image: a path or a list of paths"),
        ({"question": "Why?", "image": "c.png"}, "c.png: no such picture"),
        ({"question": "Why?", "choices": 3}, "row 1: choices: an object"),
        ({"question": "", "image": "a.png"}, "row 1: prompt: a user message with text"),
    ],
)
def test_a_wrong_row_is_one_line_that_names_it(tmp_path, row, message):
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        load(tmp_path, **row)
    assert "\n" not in str(caught.value)
