"""Every planted fault of a data set is found, and nothing else."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.data.files import entry, row, write_manifest, write_rows
from vlagent.data.check import check, row_sets
from vlagent.errors import UserError


def photo(seed: int, size=(96, 64)) -> Image.Image:
    """A smooth picture that is unlike that of any other seed."""
    noise = np.random.default_rng(seed).integers(0, 255, (6, 9, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


def keep(path, picture: Image.Image, **how) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture.save(path, **how)


@pytest.fixture
def folder(tmp_path):
    for n in range(6):
        keep(tmp_path / "data" / f"{n}.png", photo(n))
    return tmp_path


def asks(n: int, **changes):
    return row(
        **{"id": f"q-{n}", "image": f"{n}.png", "prompt": f"Which {n}?", "reward_model": {"ground_truth": str(n)}}
        | changes
    )


def found(folder, *rows, train=(), decode=True, **more):
    """(kind, item, words) of each finding."""
    write_rows(folder / "data" / "rows.jsonl", *rows)
    manifest = write_manifest(folder, mine=entry(length=len(rows)) | more)
    others = []
    if train:
        write_rows(folder / "data" / "train.jsonl", *train)
        (folder / "train.json").write_text(json.dumps({"theirs": entry(annotation="data/train.jsonl")}))
        others = row_sets(str(folder / "train.json"))
    report = check(row_sets(str(manifest)), train=others, decode=decode)
    return [(each.kind, each.item, each.what) for each in report.findings]


def test_a_sound_set_has_no_finding_and_is_counted(folder):
    assert found(folder, asks(0), asks(1), asks(2)) == []
    report = check(row_sets(str(folder / "manifest.json")))
    assert (report.rows, report.questions, report.pictures, report.counts) == ({"mine": 3}, {"mine": 3}, 3, {})


def test_a_missing_and_a_broken_picture_are_found_with_their_questions(folder):
    whole = (folder / "data" / "1.png").read_bytes()
    (folder / "data" / "1.png").write_bytes(whole[: len(whole) // 2])
    seen = found(folder, asks(0), asks(1), asks(7))
    assert [(kind, item) for kind, item, _ in seen] == [("picture", "q-1"), ("picture", "q-7")]
    assert "7.png: no such picture" in seen[1][2]
    jpeg = folder / "data" / "1.jpg"
    keep(jpeg, photo(1, (400, 300)))
    jpeg.write_bytes(jpeg.read_bytes()[:-200])
    assert [item for _, item, _ in found(folder, asks(0), asks(1, image="1.jpg"))] == ["q-1"]


@pytest.mark.parametrize("truth", [None, [], "", [" "]])
def test_an_empty_answer_is_found(folder, truth):
    ((kind, item, _),) = found(folder, asks(0), asks(1, reward_model={"ground_truth": truth}))
    assert (kind, item) == ("answer", "q-1")


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"reward_model": {"ground_truth": "D"}}, "contradiction", "'D' is none of the options A, B, C"),
        ({"reward_model": {"ground_truth": ["A", "b"]}}, "contradiction", "several options are right: A, B"),
        ({"choices": {"A": "red", "B": "Red.", "C": "blue"}}, "contradiction", "2 options say the same: 'red'"),
    ],
)
def test_options_that_contradict_are_found(folder, changes, kind, said):
    options = {"choices": {"A": "red", "B": "green", "C": "blue"}, "reward_model": {"ground_truth": "blue"}}
    metric = {"reward_fn": ["em_score_mcq"]}
    assert found(folder, asks(0, **options), **metric) == []
    seen = found(folder, asks(0, **options), asks(1, **(options | changes)), **metric)
    assert [(kind_, item) for kind_, item, _ in seen] == [(kind, "q-1")]
    assert said in seen[0][2]


def test_the_same_question_about_the_same_picture_twice_is_found_under_any_file_name(folder):
    keep(folder / "data" / "copy.png", photo(1))
    again = asks(9, image="copy.png", prompt="WHICH 1 ?", reward_model={"ground_truth": "1"})
    ((kind, item, what),) = found(folder, asks(1), asks(2), again)
    assert (kind, item, what) == ("duplicate", "q-9", "asks the same as q-1 about the same pictures")
    other = asks(9, image="copy.png", prompt="Which 1?", reward_model={"ground_truth": "2"})
    ((kind, item, what),) = found(folder, asks(1), other)
    assert (kind, item) == ("contradiction", "q-9")
    assert "('1',) is not ('2',)" in what


def test_the_same_question_about_another_picture_is_no_duplicate(folder):
    assert found(folder, asks(1, prompt="Who?"), asks(2, prompt="Who?")) == []


def test_an_id_that_comes_twice_is_found(folder):
    assert [(kind, item) for kind, item, _ in found(folder, asks(1), asks(2, id="q-1"))] == [("duplicate", "q-1")]


def test_a_wrong_count_and_a_row_that_is_none_are_found(folder):
    seen = found(folder, asks(0), asks(1, prompt=None), length=5)
    assert [(kind, item) for kind, item, _ in seen] == [("row", "row 2"), ("count", "")]
    assert seen[1][2] == "2 rows, 5 are expected"


def test_a_training_set_that_shares_pictures_or_questions_is_found(folder):
    keep(folder / "data" / "small.jpg", photo(2, (48, 32)), quality=60)
    keep(folder / "data" / "same.png", photo(1))
    train = [
        asks(0, id="t-0"),
        asks(8, id="t-1", image="same.png"),
        asks(8, id="t-2", image="small.jpg"),
        asks(3, id="t-3", image="5.png"),
        asks(4, id="t-4", image="5.png", reward_model={"ground_truth": "other"}),
    ]
    seen = found(folder, *(asks(n) for n in range(5)), train=train)
    assert seen == [
        ("overlap", "q-0", "the same question about the same picture is trained on (t-0)"),
        ("overlap", "q-1", "its picture is trained on (t-1)"),
        ("overlap", "q-2", "a copy of its picture is trained on (t-2)"),
        ("overlap", "q-3", "the same question with the same answer is trained on (t-3)"),
    ]


def test_other_pictures_of_the_same_shape_are_not_taken_for_copies(folder):
    for n in range(100, 160):
        keep(folder / "data" / f"{n}.png", photo(n))
    seen = found(folder, *(asks(n) for n in range(100, 130)), train=[asks(n, id=f"t-{n}") for n in range(130, 160)])
    assert seen == []


def test_flat_pictures_say_nothing_about_each_other(folder):
    for n, colour in ((20, "red"), (21, "blue")):
        keep(folder / "data" / f"{n}.png", Image.new("RGB", (40, 40), colour))
    assert found(folder, asks(20), train=[asks(21, id="t")]) == []


def test_without_decoding_only_bytes_count(folder):
    picture = io.BytesIO()
    photo(1, (600, 400)).save(picture, "JPEG")
    (folder / "data" / "1.jpg").write_bytes(picture.getvalue()[:-60])
    keep(folder / "data" / "small.jpg", photo(2, (48, 32)), quality=60)
    rows, train = (asks(1, image="1.jpg"), asks(2), asks(3)), (asks(8, image="small.jpg"), asks(9, image="3.png"))
    assert [kind for kind, _, _ in found(folder, *rows, train=train)] == ["picture", "overlap", "overlap"]
    assert [item for _, item, _ in found(folder, *rows, train=train, decode=False)] == ["q-3"]


def test_a_file_that_is_not_there_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        check(row_sets(str(tmp_path / "none.jsonl")))


def test_a_set_without_rows_is_not_called_sound(tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    report = check(row_sets(str(tmp_path / "none.jsonl")))
    assert report.counts == {"count": 1}
    assert "holds no row" in report.findings[0].what
