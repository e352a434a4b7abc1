import math

import numpy as np
import pytest

from vlagent.bench.metrics import (
    bootstrap_interval,
    clustered_standard_error,
    mcnemar_exact,
    mean,
    pass_at_k,
    quantile,
    wilson_interval,
)
from vlagent.bench.summary import count
from vlagent.types import EvalRow, Outcome, Sample, StopReason


def test_the_mean_of_nothing_is_none():
    assert mean([]) is None
    assert mean([1, 0, 1, 1]) == 0.75


def test_with_one_value_a_cluster_the_clustered_error_is_the_ordinary_one():
    # s = sqrt(((1/4)^2 * 3 + (3/4)^2) / 3) = 1/2; 1/2 / sqrt(4) = 1/4
    assert clustered_standard_error([[1], [1], [1], [0]]) == pytest.approx(0.25)


def test_equal_rollouts_of_a_question_add_no_certainty():
    single = clustered_standard_error([[1], [1], [1], [0]])
    assert clustered_standard_error([[1] * 8, [1] * 8, [1] * 8, [0] * 8]) == pytest.approx(single)


def test_the_clustered_error_by_hand():
    # p = 3/5; cluster sums of x - p: (1-.6)+(0-.6) = -.2, (1-.6)+(1-.6) = .8, 0-.6 = -.6; squares .04+.64+.36 = 1.04
    assert clustered_standard_error([[1, 0], [1, 1], [0]]) == pytest.approx(math.sqrt(1.5 * 1.04) / 5)


def test_below_two_clusters_there_is_no_error():
    assert clustered_standard_error([]) is None
    assert clustered_standard_error([[1, 0, 1]]) is None
    assert clustered_standard_error([[1], []]) is None


def test_wilsons_interval_by_hand():
    # p = 1/2, n = 4, z = 2: centre (.5 + .5) / 2 = .5; half = 1 * sqrt(.0625 + .0625)
    low, high = wilson_interval(2, 4, z=2.0)
    assert (low, high) == (pytest.approx(0.5 - math.sqrt(0.125)), pytest.approx(0.5 + math.sqrt(0.125)))


def test_wilsons_interval_stays_within_bounds():
    assert wilson_interval(0, 0) is None
    assert wilson_interval(0, 10)[0] == 0.0
    assert wilson_interval(10, 10)[1] == 1.0
    assert wilson_interval(10, 10)[0] == pytest.approx(0.7225, abs=1e-4)


def test_pass_at_k_by_hand():
    assert pass_at_k(4, 1, 1) == pytest.approx(0.25)
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(4, 0, 4) == 0.0
    assert pass_at_k(4, 1, 4) == 1.0
    with pytest.raises(ValueError, match="pass@5"):
        pass_at_k(4, 1, 5)


def test_mcnemars_exact_test_by_hand():
    # 5 of 6 discordant pairs one way: 2 * (1 + 6) / 64
    assert mcnemar_exact(1, 5) == pytest.approx(14 / 64)
    assert mcnemar_exact(5, 1) == pytest.approx(14 / 64)
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(3, 3) == 1.0
    assert mcnemar_exact(0, 2000) == 0.0


def test_the_bootstrap_repeats_with_its_seed_and_covers_the_mean():
    values = np.asarray([0.0] * 30 + [1.0] * 70)
    first = bootstrap_interval(values, lambda drawn: drawn.mean(axis=1), seed=1, draws=2000)
    assert first == bootstrap_interval(values, lambda drawn: drawn.mean(axis=1), seed=1, draws=2000)
    assert first != bootstrap_interval(values, lambda drawn: drawn.mean(axis=1), seed=2, draws=2000)
    low, high = first
    # normal approximation: .7 +- 1.96 * sqrt(.7 * .3 / 100)
    assert low == pytest.approx(0.61, abs=0.02)
    assert high == pytest.approx(0.79, abs=0.02)


def test_the_bootstrap_of_equal_values_has_no_width_and_of_one_value_there_is_none():
    assert bootstrap_interval(np.ones(5), lambda drawn: drawn.mean(axis=1), seed=0, draws=100) == (1.0, 1.0)
    assert bootstrap_interval(np.ones(1), lambda drawn: drawn.mean(axis=1), seed=0) is None


def test_quantiles_are_interpolated():
    assert quantile([], 0.5) is None
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5


def test_only_questions_whose_rollouts_are_all_scored_count_for_pass_at_k():
    samples = [Sample(id=name, source="s", question="q") for name in "abcd"]
    outcomes = {"a": "rw", "b": "rf", "c": "wu", "d": "ww"}
    names = {"r": Outcome.RIGHT, "w": Outcome.WRONG, "f": Outcome.FAILED, "u": Outcome.UNSCORED}
    rows = {
        (sample, rollout): EvalRow(
            suite="s", sample_id=sample, rollout=rollout, outcome=names[letter], stop=StopReason.ANSWERED
        )
        for sample, letters in outcomes.items()
        for rollout, letter in enumerate(letters)
    }
    counts = count(samples, rows, lambda _: 2)
    assert (counts.pass_at_k, counts.pass_questions) == (0.5, 2)
    assert (counts.avg_at_k, counts.avg_questions) == ((0.5 + 1 + 0 + 0) / 4, 4)
    assert (counts.accuracy, counts.scored) == (2 / 6, 6)
    del rows["a", 1]
    left = count(samples, rows, lambda _: 2)
    assert (left.pass_at_k, left.pass_questions, left.pending, left.total) == (0.0, 1, 1, 7)
