"""What goes wrong with advantages in practice, and what must come out."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.train.rl.algorithms.parts import advantage, rewards_of
from vlagent.train.rl.algorithms.registry import ADVANTAGES

OVER_GROUPS = sorted(set(ADVANTAGES) - {"reinforce_pp"})


@pytest.mark.parametrize("name", ADVANTAGES)
def test_a_minibatch_of_equal_rewards_gives_zeros_without_a_division(name: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = advantage(name, rewards_of([[1] * 8] * 16, [[1] * 8] * 16))
    assert (found.values == 0.0).all()
    assert found.degenerate.all()
    assert found.p == 0.0
    assert found.factor is None


@pytest.mark.parametrize("name", OVER_GROUPS)
def test_groups_that_are_each_degenerate_give_zeros_whatever_their_levels(name: str) -> None:
    found = advantage(name, rewards_of([[1] * 8, [0] * 8, [1.5] * 8]))
    assert (found.values == 0.0).all()
    assert found.p == 0.0


@pytest.mark.parametrize("name", OVER_GROUPS)
@pytest.mark.parametrize("value", [0.7, 1.1, 1.3])
def test_float_noise_of_a_group_of_seven_gives_exactly_zero(name: str, value: float) -> None:
    alone = advantage(name, rewards_of([[value] * 7]))
    assert (alone.values == 0.0).all()
    beside = advantage(name, rewards_of([[value] * 7, [1, 0, 0, 0, 0, 0, 0]]))
    assert (beside.values[:7] == 0.0).all()
    assert beside.values[7] > 0.5


def test_single_precision_takes_that_noise_for_a_signal() -> None:
    """Why statistics are in float64 and equal rewards are looked for: the plain formula in float32 is far from 0."""
    torch = pytest.importorskip("torch")
    groups = torch.tensor([0.7, 1.3])[:, None].expand(2, 7)
    plain = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-6)
    assert plain.abs().max() > 0.1


def test_sums_that_differ_in_their_last_bit_are_the_same_reward() -> None:
    assert 0.1 + 0.2 != 0.3
    found = advantage("bn_gspo", rewards_of([[0.1 + 0.2, 0.3], [1, 0]]))
    assert (found.values[:2] == 0.0).all()
    assert found.degenerate.tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", OVER_GROUPS)
def test_a_group_of_one_has_advantage_zero(name: str) -> None:
    found = advantage(name, rewards_of([[1], [1, 0]]))
    assert found.values[0] == 0.0
    assert found.values[1] > 0 > found.values[2]
    assert found.p == 0.5


@pytest.mark.parametrize("name", ADVANTAGES)
def test_one_sequence_alone_teaches_nothing(name: str) -> None:
    found = advantage(name, rewards_of([[1]]))
    assert found.values.tolist() == [0.0]
    assert found.p == 0.0


def test_ragged_groups_are_each_compared_with_their_own_size() -> None:
    found = advantage("grpo", rewards_of([[1, 0], [1, 0, 0], [1, 0, 0, 0]]))
    assert found.values[[0, 2, 5]] == pytest.approx([2**-0.5, 2 / 3**0.5, 1.5], abs=1e-5)


def test_a_degenerate_group_stays_at_zero_where_a_split_group_moves_the_mean() -> None:
    rewards = rewards_of([[1, 0, 0, 0], [1, 1]]).only(np.array([1, 1, 0, 0, 1, 1], bool))
    found = advantage("bn_gspo", rewards)
    assert (found.values[4:] == 0.0).all()
    assert found.values[0] > 0 > found.values[1]


@pytest.mark.parametrize("name", ADVANTAGES)
def test_a_minibatch_without_a_sequence_of_its_own_is_skipped(name: str) -> None:
    found = advantage(name, rewards_of([[1, 0]]).only(np.array([False, False])))
    assert found.p == 0.0
    assert not found.values.any()


def test_the_noise_of_large_rewards_is_noise_and_a_difference_is_one() -> None:
    noise, difference = np.nextafter(3e8, 4e8), 3e8 + 1
    assert (advantage("grpo", rewards_of([[3e8, noise, 3e8]])).values == 0.0).all()
    assert advantage("grpo", rewards_of([[3e8, difference, 3e8]])).p == 1.0


def test_the_share_that_teaches_is_of_the_groups_of_this_minibatch() -> None:
    rewards = rewards_of([[1, 0], [1, 1], [1, 0], [1, 1]])
    assert advantage("bn_gspo", rewards.only(rewards.group < 2)).p == 0.5
    assert advantage("bn_gspo", rewards.only(rewards.group < 1)).p == 1.0


def test_a_minibatch_of_equal_rewards_teaches_nothing_whatever_the_other_minibatches_hold() -> None:
    rewards = rewards_of([[1, 1], [0, 1]])
    found = advantage("reinforce_pp", rewards.only(rewards.group == 0))
    assert (found.p, found.values.tolist()) == (0.0, [0.0] * 4)
