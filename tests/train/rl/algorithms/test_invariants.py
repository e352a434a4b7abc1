"""What holds for all rewards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.train.rl.algorithms.parts import advantage, rewards_of
from vlagent.train.rl.algorithms.bn_gspo import expected_factor
from vlagent.train.rl.algorithms.registry import ADVANTAGES

VALUES = st.sampled_from([0.0, 0.5, 1.0, 1.5])
GROUPS = st.lists(st.lists(VALUES, min_size=1, max_size=6), min_size=1, max_size=5)
EQUAL_GROUPS = st.integers(2, 6).flatmap(
    lambda size: st.lists(st.lists(VALUES, min_size=size, max_size=size), min_size=1, max_size=6)
)
NAMES = st.sampled_from(sorted(ADVANTAGES))
some = settings(max_examples=40, deadline=None)


@some
@given(EQUAL_GROUPS)
def test_batch_normalisation_multiplies_every_advantage_by_one_number(groups: list[list[float]]) -> None:
    """The identity: with whole groups of equal size G the factor is 1 / sqrt(p (G-1) / G), and nothing else changes."""
    rewards = rewards_of(groups)
    before, after = advantage("grpo", rewards), advantage("bn_gspo", rewards)
    if after.p == 0:
        assert after.factor is None
        return
    assert after.factor == pytest.approx(expected_factor(after.p, len(groups[0])), rel=1e-4)
    assert after.values == pytest.approx(before.values * after.factor, abs=1e-9)


@pytest.mark.parametrize(("p", "factor"), [(1.0, 1.07), (0.5, 1.51), (0.125, 3.02), (1 / 128, 12.09)])
def test_the_factor_has_the_values_that_the_guide_states(p: float, factor: float) -> None:
    assert round(expected_factor(p, 8), 2) == factor


@some
@given(EQUAL_GROUPS, st.data())
def test_the_identity_needs_whole_groups(groups: list[list[float]], data: st.DataObject) -> None:
    """With a part of a group elsewhere the mean may move; the order within the minibatch stays all the same."""
    rewards = rewards_of(groups)
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=len(rewards.total), max_size=len(rewards.total))))
    part = rewards.only(inside)
    before, after = advantage("grpo", part), advantage("bn_gspo", part)
    kept = inside & ~after.degenerate
    assert (np.diff(after.values[kept][np.argsort(before.values[kept])]) >= -1e-9).all()


@some
@given(GROUPS, NAMES)
def test_advantages_are_finite_and_zero_where_degenerate(groups: list[list[float]], name: str) -> None:
    found = advantage(name, rewards_of(groups))
    assert np.isfinite(found.values).all()
    assert (found.values[found.degenerate] == 0.0).all()
    assert 0 <= found.p <= 1


@some
@given(GROUPS, NAMES)
def test_the_order_of_sequences_and_the_numbers_of_groups_mean_nothing(groups: list[list[float]], name: str) -> None:
    rewards = rewards_of(groups)
    order = np.random.default_rng(len(groups)).permutation(len(rewards.total))
    moved = type(rewards)(
        rewards.total[order],
        {part: values[order] for part, values in rewards.parts.items()},
        rewards.weights,
        997 - 3 * rewards.group[order],
    )
    assert advantage(name, moved).values == pytest.approx(advantage(name, rewards).values[order], abs=1e-9)


@some
@given(GROUPS, st.sampled_from(["grpo", "bn_gspo", "reinforce_pp", "reinforce_pp_baseline", "gdpo"]))
def test_the_scale_and_the_zero_of_rewards_mean_nothing(groups: list[list[float]], name: str) -> None:
    plain = advantage(name, rewards_of(groups)).values
    moved = advantage(name, rewards_of([[7 * value + 2 for value in group] for group in groups])).values
    assert moved == pytest.approx(plain, abs=1e-3)


@some
@given(EQUAL_GROUPS, st.sampled_from(["bn_gspo", "gdpo", "reinforce_pp", "reinforce_pp_baseline"]))
def test_batch_normalised_advantages_have_mean_zero_and_spread_one(groups: list[list[float]], name: str) -> None:
    found = advantage(name, rewards_of(groups))
    if found.p > 0:
        assert found.values.mean() == pytest.approx(0.0, abs=1e-6)
        assert found.values.std() == pytest.approx(1.0, abs=1e-6)


@some
@given(GROUPS, st.sampled_from(["grpo", "bn_gspo", "dr_grpo", "reinforce_pp_baseline"]))
def test_the_better_of_a_group_never_has_the_smaller_advantage(groups: list[list[float]], name: str) -> None:
    rewards = rewards_of(groups)
    found = advantage(name, rewards)
    for number in set(rewards.group):
        mine = rewards.group == number
        assert (np.diff(found.values[mine][np.argsort(rewards.total[mine])]) >= -1e-9).all()
