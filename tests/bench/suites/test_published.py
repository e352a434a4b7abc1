"""Every suite from its files as published to the exactly expected score."""

from __future__ import annotations

import json

import pytest

from tests.bench.suites.items import EXPECTED, KNOWLEDGE, PERCEPTION
from tests.bench.suites.published import PUBLISHED
from tests.bench.suites.world import lay_out, outcomes, play
from vlagent.bench.suites import SUITES, load_target, resolve_suites
from vlagent.bench.suites.registry import LAYOUTS
from vlagent.errors import UserError
from vlagent.toy.lexicon import KINDS
from vlagent.toy.world import WorldConfig, make_world

RELEASED = [(name, "released manifest") for name in SUITES if name != "toy"]


@pytest.mark.parametrize(("suite", "layout"), [*PUBLISHED, *RELEASED], ids=str)
async def test_a_suite_in_its_published_layout_gives_the_expected_score(tmp_path, suite, layout):
    found = lay_out(tmp_path / "data", suite, layout)
    assert (found.layout.name if found.layout else "released manifest") == layout
    summary = await play(found, tmp_path / "run")
    kind = "perception" if SUITES[suite].metric == "option" else "knowledge"
    assert outcomes(summary) == EXPECTED[kind]
    assert summary.counts.accuracy == pytest.approx({"perception": 4 / 6, "knowledge": 5 / 7}[kind])


def test_every_layout_has_a_fixture_and_names_its_source():
    assert {(name, layout.name) for name, layouts in LAYOUTS.items() for layout in layouts} == set(PUBLISHED)
    for layout in (layout for layouts in LAYOUTS.values() for layout in layouts):
        assert len(layout.source) > 10
    unverified = [(name, each.name) for name, layouts in LAYOUTS.items() for each in layouts if not each.verified]
    assert unverified == [("hr_mmsearch", "jsonl")]


@pytest.mark.parametrize(("suite", "layout"), PUBLISHED, ids=str)
def test_a_suite_keeps_its_answers_slices_and_pictures(tmp_path, suite, layout):
    samples = lay_out(tmp_path, suite, layout).load(warn=lambda _: None)
    items = PERCEPTION if SUITES[suite].metric == "option" else KNOWLEDGE
    assert [sample.source for sample in samples] == [suite] * len(items)
    assert len({sample.id for sample in samples}) == len(items)
    assert all(sample.images[0].width == 160 for sample in samples)
    assert all(str(item.number) in sample.question for item, sample in zip(items, samples, strict=True))
    assert len(json.dumps([sample.model_dump(mode="json") for sample in samples])) < 20_000
    if SUITES[suite].metric == "option":
        assert [sample.answers for sample in samples] == [(item.letter,) for item in items]
        wanted = 4 if (suite[:7], layout) == ("hrbench", "parquet") else 5
        assert all(len(sample.choices) == wanted for sample in samples)
    else:
        assert [sample.answers[0] for sample in samples] == [item.name for item in items]
    if suite != "mat_search":
        assert all(sample.extra["category"] for sample in samples)


def test_several_suites_are_one_target_and_share_no_id(tmp_path):
    for suite, layout in (("mmsearch", "parquet"), ("vstar", "jsonl"), ("hrbench_4k", "VLMEvalKit TSV")):
        lay_out(tmp_path, suite, layout)
    samples = load_target("vstar,mmsearch,hrbench_4k", tmp_path)
    assert list(dict.fromkeys(sample.source for sample in samples)) == ["vstar", "mmsearch", "hrbench_4k"]
    assert len({sample.id for sample in samples}) == len(samples)
    assert len(load_target("vstar,mmsearch", tmp_path, limit=2)) == 4


def test_alternative_answers_are_accepted(tmp_path):
    assert lay_out(tmp_path, "mmsearch", "parquet").load()[0].answers == ("Aldon Reach", "the Aldon Reach")
    assert lay_out(tmp_path, "fvqa_test", "parquet").load()[0].answers == ("Aldon Reach", "the Aldon Reach")
    assert lay_out(tmp_path, "livevqa", "benchmark").load()[0].answers == ("Aldon Reach", "the Aldon Reach")


def test_the_range_of_a_quantity_is_kept_but_not_an_answer(tmp_path):
    sample = lay_out(tmp_path, "infoseek", "jsonl").load()[1]
    assert sample.answers == ("Birmal Hill",)
    assert sample.extra["answer_eval"] == [{"wikidata": 1.0, "range": [0.9, 1.1]}]


def test_the_side_file_of_hr_mmsearch_gives_cached_searches(tmp_path):
    sample = lay_out(tmp_path, "hr_mmsearch", "jsonl").load()[3]
    assert sample.image_search.titles == ("Page of 3",)
    assert (sample.extra["difficulty"], sample.extra["category"]) == ("hard", "Sports")


def test_mat_search_tells_its_simple_half_from_its_hard_half(tmp_path):
    lay_out(tmp_path, "mat_search", "json")
    path = tmp_path / "mat_search" / "MAT-Benchmark" / "MAT-Search.json"
    row = json.loads(path.read_text())[0]
    path.write_text(json.dumps([row] * 150))
    halves = [sample.extra["difficulty"] for sample in resolve_suites(["mat_search"], tmp_path)[0].load()]
    assert halves == ["easy"] * 75 + ["hard"] * 75


def test_an_entry_of_a_manifest_wins_over_files_and_the_manifest_may_be_named(tmp_path):
    lay_out(tmp_path, "vstar", "jsonl")
    found = lay_out(tmp_path, "vstar", "released manifest")
    assert found.target == f"{tmp_path / 'test_all.json'}:vstar_bench"
    assert resolve_suites(["vstar"], tmp_path / "test_all.json")[0].target == found.target
    assert found.load()[0].source == "vstar_bench"


def test_the_data_folder_may_be_that_of_the_suite_itself(tmp_path):
    lay_out(tmp_path, "hr_mmsearch", "parquet")
    assert len(resolve_suites(["hr_mmsearch"], tmp_path / "HR-MMSearch")[0].load()) == len(KNOWLEDGE)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("vstar,nope", "'nope' is no suite"),
        ("vstar", "test_questions.jsonl, data/test-*.parquet, VStarBench.tsv in"),
        ("toy", "vlagent toy DIR"),
        ("nowhere", "neither a file nor a suite"),
    ],
)
def test_a_suite_without_its_files_says_what_was_looked_for(tmp_path, target, said):
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        load_target(target, tmp_path)
    assert said in str(caught.value)


def test_a_file_of_other_columns_is_one_line_that_names_the_missing_one(tmp_path):
    lay_out(tmp_path, "vstar", "jsonl")
    path = tmp_path / "vstar_bench" / "test_questions.jsonl"
    path.write_text(path.read_text().replace('"label"', '"truth"'))
    with pytest.raises(UserError, match="a column 'label' is expected; there are text, category, truth"):
        load_target("vstar", tmp_path)


def test_a_toy_world_is_the_suite_toy(tmp_path):
    make_world(tmp_path, WorldConfig(seed=3, per_kind={"test": 2}))
    (found,) = resolve_suites(["toy"], tmp_path)
    samples = found.load()
    assert len(samples) == 2 * len(KINDS)
    assert {sample.extra["kind"] for sample in samples} == set(KINDS)
