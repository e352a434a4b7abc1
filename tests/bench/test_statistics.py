import math

import pytest

from vlagent.bench.compare import compare
from vlagent.bench.statistics import cluster_bootstrap, clustered, in_clusters, picture_clusters, validity
from vlagent.files import append_jsonl
from vlagent.types import EvalRow, ImageRef, Outcome, Sample, StopReason


def asked(name, *pictures):
    images = tuple(ImageRef(path=path, width=8, height=8) for path in pictures)
    return Sample(id=name, source="s", question="q", images=images)


def test_questions_that_share_a_picture_are_one_cluster():
    found = picture_clusters([asked("1", "a"), asked("2", "b"), asked("3", "a"), asked("4")])
    assert found == {"1": "1", "2": "2", "3": "1", "4": "4"}


def test_a_question_about_two_pictures_joins_their_clusters():
    found = picture_clusters([asked("1", "a"), asked("2", "b"), asked("3", "b", "a"), asked("4", "c")])
    assert found == {"1": "1", "2": "1", "3": "1", "4": "4"}


def test_clusters_are_the_same_in_any_order_but_for_their_names():
    samples = [asked(str(n), f"p{n % 3}", f"p{n % 5}" if n % 7 == 0 else f"p{n % 3}") for n in range(30)]
    forward, backward = picture_clusters(samples), picture_clusters(samples[::-1])
    assert {name: {n for n in forward if forward[n] == forward[name]} for name in forward} == {
        name: {n for n in backward if backward[n] == backward[name]} for name in forward
    }


def test_values_are_pooled_by_cluster_and_samples_without_one_are_left_out():
    cluster_of = {"1": "1", "2": "1", "3": "3", "4": "4"}
    assert in_clusters({"1": [1.0], "2": [0.0, 1.0], "3": [1.0], "4": []}, cluster_of) == [[1.0, 0.0, 1.0], [1.0]]


def test_four_turns_of_one_question_are_no_surer_than_one():
    # 3 pictures right in all four turns, 1 wrong in all: p = 3/4, as sure as four single questions (0.25)
    turned = clustered([[1.0] * 4, [1.0] * 4, [1.0] * 4, [0.0] * 4], draws=2000)
    plain = clustered([[1.0], [1.0], [1.0], [0.0]], draws=2000)
    assert turned.standard_error == pytest.approx(0.25)
    assert turned.interval == plain.interval
    assert (turned.mean, turned.values, turned.clusters) == (0.75, 16, 4)
    taken_apart = clustered([[1.0]] * 12 + [[0.0]] * 4, draws=2000)
    assert taken_apart.standard_error < turned.standard_error / 1.9


def test_the_bootstrap_of_two_clusters_by_hand():
    # clusters of 1 right value and 3 wrong ones: means 1 (1/4), 1/4 (1/2), 0 (1/4); the 2.5 % points are 0 and 1
    assert cluster_bootstrap([[1.0], [0.0, 0.0, 0.0]], seed=3, draws=4000) == (0.0, 1.0)
    assert cluster_bootstrap([[1.0], [0.0, 0.0, 0.0]], seed=3, draws=4000, level=0.4) == (pytest.approx(0.25), 0.25)


def test_the_bootstrap_agrees_with_the_standard_error_and_repeats_with_its_seed():
    clusters = [[float(n % 3 != 0)] * (1 + n % 4) for n in range(120)]
    found = clustered(clusters, seed=5, draws=4000)
    half = (found.interval[1] - found.interval[0]) / 2
    assert half == pytest.approx(1.96 * found.standard_error, rel=0.12)
    assert found == clustered(clusters, seed=5, draws=4000)
    assert found.interval != clustered(clusters, seed=6, draws=4000).interval


def test_below_two_clusters_nothing_is_said_about_certainty():
    assert clustered([[1.0, 0.0]]) == clustered([[1.0, 0.0], []])
    found = clustered([[1.0, 0.0]])
    assert (found.mean, found.standard_error, found.interval) == (0.5, None, None)
    assert clustered([]).mean is None


@pytest.mark.parametrize(
    ("failed", "unscored", "total", "limit", "valid"),
    [
        (0, 0, 100, 0.0, True),
        (1, 0, 100, 0.0, False),
        (10, 0, 100, 0.1, True),
        (10, 1, 100, 0.1, False),
        (0, 11, 100, 0.1, False),
        (0, 0, 0, 0.1, False),
        (100, 0, 100, 1.0, True),
    ],
)
def test_a_run_with_more_than_the_set_share_of_failures_is_invalid(failed, unscored, total, limit, valid):
    found = validity(failed=failed, unscored=unscored, total=total, limit=limit)
    assert found.valid is valid
    assert bool(found.why) is not valid


def test_an_invalid_run_says_why_with_its_numbers():
    found = validity(failed=10, unscored=2, total=40, limit=0.1)
    assert found.why == "invalid: 10 failed and 2 unscored of 40 episodes (30.0 %) are more than 10 %"
    assert math.isclose(found.failed_share, 0.3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        validity(failed=0, unscored=0, total=1, limit=1.5)


def test_questions_about_one_picture_count_once_in_a_paired_comparison(tmp_path):
    # 3 pictures with 4 questions each: the second run is right on all of two pictures, the first on all of the third
    samples = [asked(f"{p}-{n}", p) for p in "abc" for n in range(4)]
    for run, right in (("one", "c"), ("two", "ab")):
        for sample in samples:
            outcome = Outcome.RIGHT if sample.id[0] in right else Outcome.WRONG
            row = EvalRow(suite="s", sample_id=sample.id, outcome=outcome, answers=("x",), stop=StopReason.ANSWERED)
            append_jsonl(tmp_path / run / "rows.jsonl", row)
    apart = compare(tmp_path / "one", tmp_path / "two").all
    assert (apart.clusters, apart.better, apart.worse) == (12, 8, 4)
    for run in ("one", "two"):
        append_jsonl(tmp_path / run / "samples.jsonl", *samples)
    found = compare(tmp_path / "one", tmp_path / "two").all
    assert (found.clusters, found.better, found.worse, found.difference) == (3, 8, 4, apart.difference)
    assert found.p_value == 1.0  # two clusters against one
    assert found.interval == (-1.0, 1.0)
    assert found.interval[0] < apart.interval[0]
