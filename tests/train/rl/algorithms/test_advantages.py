"""Each advantage against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.train.rl.algorithms.parts import advantage, rewards_of
from vlagent.train.rl.algorithms.registry import ADVANTAGES

R2 = 2**0.5
"""One right of two: mean 1/2, std (ddof 1) 1/sqrt 2, so advantages of +-1/sqrt 2."""


@pytest.mark.parametrize("name", ["grpo", "gspo"])
def test_group_advantages_divide_by_the_unbiased_std_of_the_group(name: str) -> None:
    found = advantage(name, rewards_of([[1, 0], [1, 0, 0, 0]]))
    # second group: mean 1/4, squares 9/16 + 3/16 = 12/16, std = sqrt(12/16 / 3) = 1/2
    assert found.values == pytest.approx([1 / R2, -1 / R2, 1.5, -0.5, -0.5, -0.5], abs=1e-5)
    assert found.factor is None


def test_the_group_std_is_guarded_by_a_millionth() -> None:
    found = advantage("grpo", rewards_of([[1e-5, 0.0]]))
    std = 1e-5 / R2
    assert found.values[0] == pytest.approx(0.5e-5 / (std + 1e-6), rel=1e-9)


def test_bn_gspo_divides_by_the_population_std_over_the_minibatch() -> None:
    found = advantage("bn_gspo", rewards_of([[1, 0], [1, 1]]))
    # A = (1, -1, 0, 0) / sqrt 2: mean 0, variance (1/2 + 1/2) / 4 = 1/4, factor 2
    assert found.values == pytest.approx([R2, -R2, 0, 0], abs=1e-5)
    assert found.factor == pytest.approx(2.0, abs=1e-5)
    assert found.p == 0.5


def test_a_group_split_across_minibatches_shifts_what_batch_normalisation_gives() -> None:
    rewards = rewards_of([[1, 0, 0, 0], [1, 0, 0, 0]]).only(np.array([1, 1, 0, 0, 1, 1, 1, 1], bool))
    found = advantage("bn_gspo", rewards)
    # A here = (1.5, -.5 | 1.5, -.5, -.5, -.5): mean 1/6, mean square (4.5 + 1) / 6 = 11/12, variance 11/12 - 1/36 = 8/9
    factor = (9 / 8) ** 0.5
    assert found.factor == pytest.approx(factor, abs=1e-5)
    assert found.values[:2] == pytest.approx([(1.5 - 1 / 6) * factor, (-0.5 - 1 / 6) * factor], abs=1e-5)
    assert not found.values[2:4].any()


def test_minibatch_statistics_differ_from_those_of_the_whole_batch_and_group_statistics_do_not() -> None:
    whole = rewards_of([[1, 0], [1, 1], [1, 0], [0, 0]])
    first = np.array([1, 1, 1, 1, 0, 0, 0, 0], bool)
    part = rewards_of([[1, 0], [1, 0], [1, 1], [0, 0]]).only(first)
    assert advantage("bn_gspo", whole).values[0] == pytest.approx(R2, abs=1e-5)
    assert advantage("bn_gspo", part).values[0] == pytest.approx(1.0, abs=1e-5)
    assert advantage("grpo", whole).values[0] == advantage("grpo", part).values[0]


def test_gdpo_normalises_each_part_before_it_sums() -> None:
    found = advantage("gdpo", rewards_of([[1, 0], [0, 0]], [[1, 0], [1, 0]]))
    # accuracy (1, -1, 0, 0) / sqrt 2, format (1, -1, 1, -1) / sqrt 2: sums (1.5, -1.5, .5, -.5) / sqrt 2
    sums = np.array([1.5, -1.5, 0.5, -0.5]) / R2
    assert found.values == pytest.approx(sums / sums.std(), abs=1e-5)
    assert not found.degenerate.any()


def test_gdpo_keeps_apart_what_a_sum_of_rewards_mixes() -> None:
    opposed = rewards_of([[1, 0.5, 0]], [[0, 1, 2]])
    assert not advantage("grpo", opposed).values.any()
    assert advantage("gdpo", opposed).values == pytest.approx([1.5**0.5, 0, -(1.5**0.5)], abs=1e-5)


def test_gdpo_ignores_a_part_without_weight() -> None:
    rewards = rewards_of([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    rewards.weights["format"] = 0.0
    found = advantage("gdpo", rewards)
    assert found.values == pytest.approx([R2, -R2, 0, 0], abs=1e-5)
    assert found.p == 0.5


def test_reinforce_pp_compares_with_the_whole_minibatch() -> None:
    found = advantage("reinforce_pp", rewards_of([[1, 1], [0, 0]]))
    assert found.values == pytest.approx([1, 1, -1, -1])
    assert found.p == 1.0


def test_reinforce_pp_with_baseline_subtracts_the_mean_of_the_group_first() -> None:
    found = advantage("reinforce_pp_baseline", rewards_of([[1, 0], [1, 1], [4, 0]]))
    # differences (.5, -.5, 0, 0, 2, -2): variance (.25 + .25 + 4 + 4) / 6
    std = (8.5 / 6) ** 0.5
    assert found.values == pytest.approx(np.array([0.5, -0.5, 0, 0, 2, -2]) / std)


def test_dr_grpo_subtracts_the_mean_alone() -> None:
    found = advantage("dr_grpo", rewards_of([[1, 0], [1, 0, 0, 0]]))
    assert found.values == pytest.approx([0.5, -0.5, 0.75, -0.25, -0.25, -0.25])


def test_no_two_algorithms_give_the_same_advantages() -> None:
    rewards = rewards_of([[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 0.5, 1], [1, 1, 0], [1, 1, 0]])
    found = {name: tuple(advantage(name, rewards).values.round(6)) for name in ADVANTAGES}
    assert found.pop("gspo") == found["grpo"]
    assert len(set(found.values())) == len(found)


def test_excluding_degenerate_groups_takes_their_zeros_out_of_the_spread() -> None:
    rewards = rewards_of([[1, 0], [1, 1]])
    found = advantage("bn_gspo", rewards, exclude_degenerate=True)
    assert found.values == pytest.approx([1, -1, 0, 0], abs=1e-5)
    assert found.factor == pytest.approx(R2, abs=1e-5)


def test_the_factor_can_be_bounded() -> None:
    rewards = rewards_of([[1, 0], *[[1, 1]] * 31])
    assert advantage("bn_gspo", rewards).factor == pytest.approx(8.0, abs=1e-4)
    bounded = advantage("bn_gspo", rewards, bn_max_factor=4.0)
    assert bounded.factor == 4.0
    assert bounded.values[0] == pytest.approx(4 / R2, abs=1e-5)
