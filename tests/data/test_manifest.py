import json

import pytest

from tests.data.files import entry, row, write_manifest, write_picture, write_rows
from vlagent.data.manifest import load_manifest, load_samples
from vlagent.errors import UserError


@pytest.fixture
def folder(tmp_path):
    write_picture(tmp_path / "data" / "a.png")
    write_rows(tmp_path / "data" / "rows.jsonl", row())
    return tmp_path


def many(folder, count):
    return write_rows(folder / "data" / "rows.jsonl", *(row(id=f"r{i:03}") for i in range(count)))


def test_an_entry_names_the_source_and_its_prompt_wins(folder):
    arguments = {"system_prompt": "Theirs.", "format_instruction": "In one word.", "add_image_path": True}
    path = write_manifest(folder, hr_mmsearch=entry(input_template={"name": "x", "arguments": arguments}))
    (sample,) = load_samples(path)
    assert sample.source == "hr_mmsearch"
    assert sample.system_prompt == "Theirs."
    assert (sample.question, sample.instruction) == ("Which city?", "In one word.")
    assert sample.extra["reward_fn"] == ["llm_score", "format_score"]


def test_entries_can_be_picked_by_name(folder):
    path = write_manifest(folder, one=entry(), two=entry(), three=entry())
    assert [s.source for s in load_samples(path)] == ["one", "two", "three"]
    assert [s.source for s in load_samples(f"{path}:three,one")] == ["three", "one"]
    with pytest.raises(UserError, match="no entry 'four'; there are one, two, three"):
        load_samples(f"{path}:four")


def test_ids_that_two_entries_share_get_the_name_of_their_entry(folder):
    path = write_manifest(folder, one=entry(), two=entry())
    assert [s.id for s in load_samples(path)] == ["one/r-one", "two/r-one"]


def test_a_length_that_differs_is_a_warning_with_both_numbers_and_all_rows_are_used(folder):
    warned = []
    samples = load_samples(write_manifest(folder, one=entry(length=305)), warn=warned.append)
    assert len(samples) == 1
    assert len(warned) == 1
    assert "length is 305" in warned[0]
    assert "has 1 rows" in warned[0]
    load_samples(write_manifest(folder, one=entry(length=1)), warn=warned.append)
    assert len(warned) == 1


def test_whole_repeats_come_again_and_the_fraction_is_a_seeded_sample(folder):
    many(folder, 40)
    ids = [s.id for s in load_samples(write_manifest(folder, one=entry(repeat_time=1.5, length=40)))]
    assert len(ids) == 60
    assert ids[:40] == [f"r{i:03}" for i in range(40)]
    assert all(name.endswith("~2") for name in ids[40:])
    half = write_manifest(folder, one=entry(repeat_time=0.5, length=40))
    first = [s.id for s in load_samples(half, seed=1)]
    assert len(first) == 20
    assert first == sorted(first)
    assert first == [s.id for s in load_samples(half, seed=1)]
    assert first != [s.id for s in load_samples(half, seed=2)]


def test_a_repeat_of_nought_leaves_the_entry_out(folder):
    path = write_manifest(folder, one=entry(), two=entry(repeat_time=0))
    assert [s.source for s in load_samples(path)] == ["one"]


def test_option_questions_get_their_choices_from_the_text(folder):
    question = "<image>\nWhich colour?\nA. white\nB. blue\nC. red"
    write_rows(
        folder / "data" / "rows.jsonl",
        row(prompt=[{"role": "user", "content": question}], reward_model={"ground_truth": "B"}),
    )
    (sample,) = load_samples(write_manifest(folder, vstar_bench=entry(reward_fn=["em_score_mcq"])))
    assert sample.choices == {"A": "white", "B": "blue", "C": "red"}
    (judged,) = load_samples(write_manifest(folder, vstar_bench=entry(reward_fn=["llm_score"])))
    assert judged.choices == {}


@pytest.mark.parametrize(
    ("question", "truth", "letters"),
    [
        ("Which? (A) red (B) blue", "A", "AB"),
        ("Which?\nA) red\nB) blue", "A", "AB"),
        ("Which is it?", "B", "ABCD"),
        ("Which is it?", "E", "ABCDE"),
        ("Which?\nB. red\nA. blue", "A", "ABCD"),
    ],
)
def test_letters_exist_even_where_the_options_cannot_be_read(folder, question, truth, letters):
    write_rows(folder / "data" / "rows.jsonl", row(prompt=question, reward_model={"ground_truth": truth}))
    (sample,) = load_samples(write_manifest(folder, x=entry(reward_fn=["em_score_mcq"])))
    assert "".join(sample.choices) == letters


def test_unknown_fields_of_a_manifest_are_no_error_and_an_unknown_reward_is_a_warning(folder):
    warned = []
    path = write_manifest(folder, one=entry(weight=3, reward_fn=["llm_score", "beauty"]))
    assert len(load_samples(path, warn=warned.append)) == 1
    assert "beauty" in warned[0]


def test_what_is_wrong_in_a_manifest_is_named(folder):
    broken = {key: value for key, value in entry().items() if key != "annotation"}
    with pytest.raises(UserError, match="one: annotation: Field required"):
        load_manifest(write_manifest(folder, one=broken))
    with pytest.raises(UserError, match="two: repeat_time"):
        load_manifest(write_manifest(folder, two=entry(repeat_time=-1)))
    with pytest.raises(UserError, match="an object of name"):
        load_manifest(write_manifest(folder))
    with pytest.raises(UserError, match="no such file"):
        load_samples(write_manifest(folder, one=entry(annotation="data/none.jsonl")))
    with pytest.raises(UserError, match="only a manifest"):
        load_samples(f"{folder / 'data' / 'rows.jsonl'}:one")


def test_rows_may_be_one_json_array(folder):
    (folder / "data" / "rows.json").write_text(json.dumps([row(), row(id="b")]))
    assert len(load_samples(write_manifest(folder, one=entry(annotation="data/rows.json", length=2)))) == 2
    (folder / "data" / "rows.json").write_text(json.dumps([1]))
    with pytest.raises(UserError, match="row 1: an object"):
        load_samples(write_manifest(folder, one=entry(annotation="data/rows.json")))


def hr_row(**changes):
    given = {"sample_id": 17, "query": "Which car?", "query_image": "a.png", "ground_truth": "G 580"}
    return {**given, "difficulty": "hard", "category": "Sports", **changes}


def test_hr_mmsearch_is_read_as_published_with_its_side_file(folder):
    rows = write_rows(folder / "data" / "hr_mmsearch.jsonl", hr_row())
    cached = {"17": {"image_search_title_list": ["A page"], "image_search_thumbnail_list": ["a.png"]}}
    (folder / "data" / "image_search.json").write_text(json.dumps(cached))
    (sample,) = load_samples(rows)
    assert (sample.id, sample.question, sample.answers) == ("hr_mmsearch/17", "Which car?", ("G 580",))
    assert sample.extra["difficulty"] == "hard"
    assert sample.extra["category"] == "Sports"
    assert sample.image_search.titles == ("A page",)


def test_the_side_file_can_be_named_and_be_json_lines(folder):
    rows = write_rows(folder / "data" / "hr_mmsearch.jsonl", hr_row())
    assert load_samples(rows)[0].image_search is None
    side = write_rows(folder / "cache.jsonl", {"sample_id": 17, "image_search_title_list": ["A page"]})
    assert load_samples(rows, side=side)[0].image_search.titles == ("A page",)
    with pytest.raises(UserError, match="sample_id"):
        load_samples(rows, side=write_rows(folder / "bad.jsonl", {"titles": []}))
