import base64
import json

import pytest

from tests.data.files import row, write_picture, write_rows
from vlagent.data.manifest import load_samples
from vlagent.data.rows import with_unique_ids
from vlagent.errors import UserError
from vlagent.types import Sample


@pytest.fixture
def one(tmp_path):
    """Loads one row whose pictures a.png and b.png exist."""
    write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "b.png", (20, 30))

    def load(**changes):
        return load_samples(write_rows(tmp_path / "mine.jsonl", row(**changes)))[0]

    return load


def test_a_row_becomes_a_sample(one, tmp_path):
    sample = one()
    assert (sample.id, sample.source, sample.question) == ("r-one", "mine", "Which city?")
    assert sample.answers == ("Paris",)
    assert [(image.path, image.width, image.height) for image in sample.images] == [(str(tmp_path / "a.png"), 64, 48)]
    assert sample.choices == {}
    assert sample.image_search is None
    assert sample.system_prompt is None


def test_the_image_may_be_a_list_and_several_truths_are_accepted(one):
    sample = one(
        image=["a.png", "b.png"],
        prompt=[{"role": "user", "content": "<image><image>\nWhich?"}],
        reward_model={"ground_truth": ["Paris", 5]},
    )
    assert [image.width for image in sample.images] == [64, 20]
    assert sample.question == "Which?"
    assert sample.answers == ("Paris", "5")


def test_a_slot_within_the_text_becomes_a_reference(one):
    sample = one(image=["a.png", "b.png"], prompt=[{"role": "user", "content": "<image>Like <image> or not?"}])
    assert sample.question == "Like [picture 2 of 2] or not?"


def test_a_prompt_without_slots_is_fine_and_another_number_of_slots_is_an_error(one):
    assert one(prompt=[{"role": "user", "content": "Which?"}]).question == "Which?"
    with pytest.raises(UserError, match="row 1: 2 <image> in the prompt but 1 pictures"):
        one(prompt=[{"role": "user", "content": "<image><image>Which?"}])


def test_stray_fields_are_kept(one):
    sample = one(mean8_llm_score=0.25, data_source="x", ability="y", extra_info={"kind": "fact"}, kind="read")
    assert sample.extra == {
        "mean8_llm_score": 0.25,
        "data_source": "x",
        "ability": "y",
        "extra_info": {"kind": "fact"},
        "kind": "read",
    }


def test_a_row_without_a_picture_or_a_truth_is_still_a_question(one):
    sample = one(image=None, reward_model=None, prompt=[{"role": "user", "content": "Which?"}])
    assert (sample.images, sample.answers) == ((), ())


def test_a_rows_own_system_prompt_is_used(one):
    sample = one(prompt=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which?"}])
    assert sample.system_prompt == "Be brief."


def test_the_cached_image_search_keeps_every_title_beside_its_own_thumbnail(one, tmp_path):
    sample = one(
        image_search_title_list=["one", "two", "three"],
        image_search_thumbnail_list=["b.png", "lost.png"],
        image_search_summary="sum",
    )
    assert sample.image_search.titles == ("one", "two", "three")
    assert sample.image_search.thumbnails == (str(tmp_path / "b.png"), None, None)
    assert sample.image_search.summary == "sum"
    assert "image_search_summary" not in sample.extra


@pytest.mark.parametrize(("given", "expected"), [("x-1", "x-1"), (7, "mine/7"), ("7", "mine/7"), (None, "mine/1")])
def test_a_bare_number_as_id_gets_its_source_in_front(one, given, expected):
    assert one(id=given).id == expected


def test_the_index_serves_as_id_where_there_is_none(tmp_path):
    write_picture(tmp_path / "a.png")
    without = {key: value for key, value in row(index=12).items() if key != "id"}
    assert load_samples(write_rows(tmp_path / "mine.jsonl", without))[0].id == "mine/12"


def test_repeated_ids_are_numbered(tmp_path):
    write_picture(tmp_path / "a.png")
    samples = load_samples(write_rows(tmp_path / "mine.jsonl", row(), row(), row()))
    assert [sample.id for sample in samples] == ["r-one", "r-one~2", "r-one~3"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": None}, "row 1: prompt"),
        ({"prompt": [{"role": "tool", "content": "x"}]}, "row 1: prompt"),
        ({"image": 5}, "row 1: image"),
        ({"reward_model": {"ground_truth": {"a": 1}}}, "row 1: ground_truth"),
        ({"choices": ["x"]}, "row 1: choices"),
    ],
)
def test_a_row_that_cannot_be_understood_names_file_row_and_key(one, changes, message):
    with pytest.raises(UserError, match=message):
        one(**changes)


def test_missing_pictures_are_listed_together_with_their_count(tmp_path):
    write_picture(tmp_path / "a.png")
    (tmp_path / "broken.png").write_text("no picture")
    rows = [row(), row(image="broken.png"), *(row(image=f"lost{i}.png") for i in range(5))]
    with pytest.raises(UserError, match=r"6 of 7 pictures are missing or unreadable: .*broken.*lost0.*and 3 more"):
        load_samples(write_rows(tmp_path / "mine.jsonl", *rows))


def test_a_limit_takes_the_first_rows_and_looks_at_their_pictures_only(tmp_path):
    write_picture(tmp_path / "a.png")
    path = write_rows(tmp_path / "mine.jsonl", row(id="a"), row(id="b"), row(id="c", image="lost.png"))
    assert [sample.id for sample in load_samples(path, limit=2)] == ["a", "b"]


def test_an_empty_or_absent_file_is_the_users_error(tmp_path):
    with pytest.raises(UserError, match="holds no sample"):
        load_samples(write_rows(tmp_path / "mine.jsonl"))
    with pytest.raises(UserError, match="no such file"):
        load_samples(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="is expected"):
        load_samples(write_picture(tmp_path / "a.png"))


@pytest.mark.parametrize(
    "given",
    [
        [("a", "s"), ("a", "s"), ("a~2", "s")],
        [("a~2", "s"), ("a", "s"), ("a", "s")],
        [("a", "s"), ("a", "t"), ("s/a", "u")],
        [("s/a", "u"), ("a", "s"), ("a", "t"), ("a", "s"), ("s/a~2", "u")],
    ],
)
def test_no_two_samples_ever_share_an_id(given):
    samples = [Sample(id=name, source=source, question="q") for name, source in given]
    ids = [sample.id for sample in with_unique_ids(samples)]
    assert len(set(ids)) == len(ids)
    assert [sample.id for sample in with_unique_ids(samples)] == ids


def test_a_thumbnail_that_is_not_there_keeps_its_title_and_shifts_no_other(one, tmp_path):
    columns = {
        "image_search_title_list": ["x", "y", "z"],
        "image_search_thumbnail_list": ["a.png", "gone.png", "b.png"],
    }
    cached = one(**columns).image_search
    assert cached.titles == ("x", "y", "z")
    assert cached.thumbnails == (str(tmp_path / "a.png"), None, str(tmp_path / "b.png"))
    short = one(**{**columns, "image_search_thumbnail_list": [None, "b.png"]}).image_search
    assert short.thumbnails == (None, str(tmp_path / "b.png"), None)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.tsv"])
def test_a_damaged_picture_in_the_row_itself_is_told_apart_from_a_path_and_not_printed(tmp_path, name):
    damaged = base64.b64encode(b"\xff\xd8\xff" + bytes(range(256)) * 200).decode() + "!!"
    table = f"question\timage\tanswer\nq\t{damaged}\ta\n"
    rows = json.dumps({"question": "q", "image": damaged, "answer": "a"}) + "\n"
    (tmp_path / name).write_text(table if name.endswith("tsv") else rows)
    with pytest.raises(UserError, match=r"row 1: image: '/9j/.*no whole picture in base64") as caught:
        load_samples(str(tmp_path / name))
    assert len(str(caught.value)) < 400
