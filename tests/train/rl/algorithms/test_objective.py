"""The objective against hand-computed values, and what must not change it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from vlagent.train.rl.algorithms.config import AlgorithmConfig  # noqa: E402
from vlagent.train.rl.algorithms.objective import Scores, Totals, objective  # noqa: E402
from vlagent.train.rl.algorithms.stats import Stats, summary  # noqa: E402

BOTH = [("token", "sequence_mean"), ("token", "token_mean"), ("sequence", "sequence_mean"), ("sequence", "token_mean")]
MASK = torch.tensor([[0, 1, 1, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]]).bool()
ADVANTAGES = torch.tensor([1.5, -0.5, -1.0], dtype=torch.float64)


def config(**values: Any) -> AlgorithmConfig:
    return AlgorithmConfig.model_validate({"beta": 0.0, **values})


def totals(mask: Any) -> Totals:
    return Totals(len(mask), int(mask.sum()))


def drawn(seed: int, spread: float = 0.3) -> Any:
    return spread * torch.randn(MASK.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) - 1.0


def gradient(scores: Scores, advantages: Any, settings: AlgorithmConfig, size: Totals | None = None) -> Any:
    scores.new.grad = None
    objective(scores, advantages, settings, size or totals(scores.mask)).loss.backward()
    return scores.new.grad


def test_on_policy_loss_is_minus_the_mean_advantage() -> None:
    scores = Scores(drawn(1), MASK)
    for ratio in ("token", "sequence"):
        loss = objective(scores, ADVANTAGES, config(ratio=ratio), totals(MASK)).loss
        assert loss.item() == pytest.approx(-(1.5 - 0.5 - 1.0) / 3)
        loss = objective(scores, ADVANTAGES, config(ratio=ratio, aggregation="token_mean"), totals(MASK)).loss
        assert loss.item() == pytest.approx(-(3 * 1.5 - 0.5 - 4 * 1.0) / 8)


@pytest.mark.parametrize(("ratio", "aggregation"), BOTH)
def test_at_ratio_one_the_gradient_is_the_advantage_weighted_score_function(ratio: str, aggregation: str) -> None:
    new = drawn(1).requires_grad_()
    found = gradient(Scores(new, MASK, new.detach()), ADVANTAGES, config(ratio=ratio, aggregation=aggregation))
    weight = 1 / 8 if aggregation == "token_mean" else 1 / (3 * MASK.sum(1, keepdim=True))
    assert torch.allclose(found, -ADVANTAGES[:, None] * MASK * weight, atol=1e-12)


def test_the_sequence_ratio_is_the_geometric_mean_over_own_tokens() -> None:
    new = torch.tensor([[-9.0, -1.0, -2.0, 5.0]])
    old = torch.tensor([[-1.0, -1.2, -2.1, -3.0]])
    mask = torch.tensor([[False, True, True, False]])
    ratio = math.exp((0.2 + 0.1) / 2)
    loss = objective(Scores(new, mask, old), torch.tensor([-2.0]), config(), Totals(1, 2)).loss
    assert loss.item() == pytest.approx(2 * ratio, rel=1e-6)
    loss = objective(Scores(new, mask, old), torch.tensor([-2.0]), config(ratio="token"), Totals(1, 2)).loss
    assert loss.item() == pytest.approx(2 * (math.exp(0.2) + math.exp(0.1)) / 2, rel=1e-6)


@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean"])
def test_the_sequence_ratio_and_its_token_form_give_equal_gradients(aggregation: str) -> None:
    """s_t = sg[s] exp(logp_t - sg[logp_t]) (arXiv 2507.18071, GSPO-token), each token clipped on its own."""
    new, old = drawn(1).requires_grad_(), drawn(2)
    found = gradient(Scores(new, MASK, old), ADVANTAGES, config(aggregation=aggregation)).clone()
    s = (((new - old) * MASK).sum(1) / MASK.sum(1)).exp().detach()
    tokens = s[:, None] * (new - new.detach()).exp()
    gain = torch.minimum(tokens * ADVANTAGES[:, None], tokens.clamp(0.8, 1.28) * ADVANTAGES[:, None])
    weight = 1 / 8 if aggregation == "token_mean" else 1 / (3 * MASK.sum(1, keepdim=True))
    new.grad = None
    (-gain * MASK * weight).sum().backward()
    assert found.abs().max() > 0
    assert torch.allclose(found, new.grad, atol=1e-12)


@pytest.mark.parametrize(
    ("advantage", "shift", "expected", "moves"),
    [
        (1.0, 0.5, 1.28, False),  # a gain is cut above 1 + eps_high
        (1.0, -0.5, math.exp(-0.5), True),
        (-1.0, -0.5, -0.8, False),  # a punishment is cut below 1 - eps_low
        (-1.0, 0.5, -math.exp(0.5), True),
    ],
)
@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_the_clip_stops_the_gradient_on_one_side(
    ratio: str, advantage: float, shift: float, expected: float, moves: bool
) -> None:
    new = torch.full((1, 3), shift, requires_grad=True)
    mask = torch.tensor([[False, True, True]])
    scores = Scores(new, mask, torch.zeros(1, 3))
    found = objective(scores, torch.tensor([advantage]), config(ratio=ratio), Totals(1, 2))
    found.loss.backward()
    assert found.loss.item() == pytest.approx(-expected, rel=1e-6)
    assert bool(new.grad.abs().sum() > 0) is moves


def test_dual_clip_bounds_the_ratio_of_what_is_punished_and_of_nothing_else() -> None:
    new, old, mask = torch.full((2, 2), 2.0), torch.zeros(2, 2), torch.ones(2, 2).bool()
    advantages = torch.tensor([-1.0, 1.0])
    free = objective(Scores(new, mask, old), advantages, config(), Totals(2, 4)).loss
    bound = objective(Scores(new, mask, old), advantages, config(dual_clip=3.0), Totals(2, 4)).loss
    assert free.item() == pytest.approx((math.exp(2) - 1.28) / 2, rel=1e-6)
    assert bound.item() == pytest.approx((3.0 - 1.28) / 2, rel=1e-6)


def test_the_kl_term_is_the_k3_estimate_with_the_same_aggregation() -> None:
    new, ref, none = drawn(1), drawn(3), torch.zeros(3)
    gap = ref - new
    k3 = (gap.exp() - gap - 1) * MASK
    by_sequence = (k3.sum(1) / MASK.sum(1)).mean()
    scores = Scores(new, MASK, ref=ref)
    found = objective(scores, none, config(beta=0.1), totals(MASK))
    assert found.loss.item() == pytest.approx(0.1 * by_sequence.item())
    found = objective(scores, none, config(beta=0.1, aggregation="token_mean"), totals(MASK))
    assert found.loss.item() == pytest.approx(0.1 * k3.sum().item() / 8)
    assert found.stats.shares["kl"] == pytest.approx(k3.sum().item() / 8)


def test_the_entropy_bonus_lowers_the_loss() -> None:
    entropy = torch.rand(MASK.shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    found = objective(Scores(drawn(1), MASK, entropy=entropy), torch.zeros(3), config(entropy=0.01), totals(MASK))
    assert found.loss.item() == pytest.approx(-0.01 * ((entropy * MASK).sum(1) / MASK.sum(1)).mean().item())
    assert found.stats.shares["entropy"] == pytest.approx((entropy * MASK).sum().item() / 8)


def test_truncated_importance_sampling_weighs_the_gain_by_trainer_over_sampler() -> None:
    new = torch.zeros(2, 2, requires_grad=True)
    sampler = torch.tensor([[-0.1, -0.3], [-3.0, -3.0]])
    mask, advantages = torch.ones(2, 2).bool(), torch.tensor([1.0, -1.0])
    scores = Scores(new, mask, sampler=sampler)
    token = objective(scores, advantages, config(ratio="token", tis_cap=2.0), Totals(2, 4)).loss
    assert token.item() == pytest.approx(-((math.exp(0.1) + math.exp(0.3)) / 2 - 2.0) / 2, rel=1e-6)
    sequence = objective(scores, advantages, config(tis_cap=2.0), Totals(2, 4)).loss
    assert sequence.item() == pytest.approx(-(math.exp(0.2) - 2.0) / 2, rel=1e-6)
    without = objective(scores, advantages, config(), Totals(2, 4)).loss
    assert without.item() == pytest.approx(0.0)


def test_the_weight_of_importance_sampling_has_no_gradient() -> None:
    new = torch.zeros(1, 2, requires_grad=True)
    scores = Scores(new, torch.ones(1, 2).bool(), sampler=torch.full((1, 2), -0.5))
    found = gradient(scores, torch.tensor([1.0]), config(tis_cap=5.0), Totals(1, 2))
    assert found == pytest.approx(torch.full((1, 2), -math.exp(0.5) / 2))


FULL = {"beta": 0.1, "entropy": 0.01, "tis_cap": 2.0, "dual_clip": 3.0}


def full_scores(new: Any, mask: Any = MASK) -> Scores:
    old, ref, sampler = drawn(2), drawn(3), drawn(4)
    return Scores(new, mask, old, ref, sampler, entropy=drawn(5).abs())


@pytest.mark.parametrize(("ratio", "aggregation"), BOTH)
@pytest.mark.parametrize("value", [0.0, -7.0, 100.0, math.inf, -math.inf, math.nan])
def test_what_stands_at_masked_positions_changes_nothing(ratio: str, aggregation: str, value: float) -> None:
    """Padding, observations and picture tokens never change ratio, loss, gradient or figures."""
    settings = config(ratio=ratio, aggregation=aggregation, **FULL)
    clean = full_scores(drawn(1).requires_grad_())
    spoilt = [torch.where(MASK, part.detach(), value) for part in (clean.new, clean.old, clean.ref, clean.sampler)]
    dirty = Scores(spoilt[0].requires_grad_(), MASK, *spoilt[1:], entropy=torch.where(MASK, clean.entropy, value))
    a, b = (objective(scores, ADVANTAGES, settings, totals(MASK)) for scores in (clean, dirty))
    assert a.loss.item() == b.loss.item()
    assert summary([a.stats]) == summary([b.stats])
    one, other = gradient(clean, ADVANTAGES, settings), gradient(dirty, ADVANTAGES, settings)
    assert torch.equal(one, other)
    assert not one[~MASK].any()


@pytest.mark.parametrize(("ratio", "aggregation"), BOTH)
def test_more_padding_changes_nothing(ratio: str, aggregation: str) -> None:
    settings = config(ratio=ratio, aggregation=aggregation, beta=0.1)

    def loss_of(pad: int) -> float:
        new, old, ref = (torch.nn.functional.pad(drawn(i), (0, pad)) for i in (1, 2, 3))
        mask = torch.nn.functional.pad(MASK, (0, pad))
        return objective(Scores(new, mask, old, ref), ADVANTAGES, settings, totals(mask)).loss.item()

    assert loss_of(40) == pytest.approx(loss_of(0), abs=1e-12)


@pytest.mark.parametrize(("ratio", "aggregation"), BOTH)
@pytest.mark.parametrize("cut", [[[0], [1], [2]], [[0, 1], [2]], [[2, 0], [1]]])
def test_passes_of_a_minibatch_add_up_to_one_big_pass(ratio: str, aggregation: str, cut: list[list[int]]) -> None:
    """Gradient accumulation, and processes: the global totals make each pass its own part of the whole."""
    settings, size = config(ratio=ratio, aggregation=aggregation, **FULL), totals(MASK)
    new = drawn(1).requires_grad_()
    whole = full_scores(new)
    expected = objective(whole, ADVANTAGES, settings, size)
    gradients = gradient(whole, ADVANTAGES, settings).clone()
    new.grad = None
    passes = []
    for rows in cut:
        kept = [part[rows] for part in (whole.new, whole.mask, whole.old, whole.ref, whole.sampler, whole.entropy)]
        passes.append(objective(Scores(*kept), ADVANTAGES[rows], settings, size))
        passes[-1].loss.backward()
    assert sum(one.loss.item() for one in passes) == pytest.approx(expected.loss.item(), abs=1e-12)
    assert torch.allclose(new.grad, gradients, atol=1e-12)
    one, many = summary([expected.stats]), summary([part.stats for part in passes])
    assert one.keys() == many.keys()
    assert many == pytest.approx(one, abs=1e-6)


def test_a_sequence_without_own_tokens_weighs_nothing() -> None:
    mask = MASK.clone()
    mask[1] = False
    new = drawn(1).requires_grad_()
    assert not gradient(Scores(new, mask, drawn(2)), ADVANTAGES, config(), Totals(2, 7))[1].any()
    two = [0, 2]
    expected = objective(Scores(new[two], mask[two], drawn(2)[two]), ADVANTAGES[two], config(), Totals(2, 7)).loss
    assert objective(Scores(new, mask, drawn(2)), ADVANTAGES, config(), Totals(2, 7)).loss == expected


@pytest.mark.parametrize("ratio", ["token", "sequence"])
def test_a_ratio_beyond_all_bounds_gives_finite_gradients(ratio: str) -> None:
    new = torch.zeros(2, 3, requires_grad=True)
    scores = Scores(new, torch.ones(2, 3).bool(), torch.full((2, 3), -200.0), torch.full((2, 3), 200.0))
    found = gradient(scores, torch.tensor([1.0, -1.0]), config(ratio=ratio, beta=0.1))
    assert torch.isfinite(found).all()


@pytest.mark.parametrize(("option", "part"), [("beta", "ref"), ("tis_cap", "sampler"), ("entropy", "entropy")])
def test_a_term_without_its_log_probabilities_is_an_error_and_not_zero(option: str, part: str) -> None:
    with pytest.raises(ValueError, match=f"scores.{part}"):
        objective(Scores(drawn(1), MASK), ADVANTAGES, config(**{option: 1.5}), totals(MASK))


def test_figures_say_where_ratio_and_clip_acted() -> None:
    new = torch.tensor([[0.5], [0.5], [-0.5], [0.0]])
    scores = Scores(new, torch.ones(4, 1).bool(), torch.zeros(4, 1), sampler=torch.tensor([[0.1], [0.0], [0.0], [0.0]]))
    for ratio in ("token", "sequence"):
        found = objective(scores, torch.tensor([1.0, -1.0, -1.0, 1.0]), config(ratio=ratio), Totals(4, 4))
        values = summary([found.stats])
        assert values["clip/high"] == 0.25
        assert values["clip/low"] == 0.25
        assert values["ratio/one"] == 0.25
        assert values["ratio/max"] == pytest.approx(math.exp(0.5))
        assert values["ratio/q50"] == pytest.approx((1 + math.exp(0.5)) / 2)
        assert values["mismatch/mean"] == pytest.approx(0.025)
        assert values["mismatch/max"] == pytest.approx(0.1)


def test_the_mismatch_is_that_of_the_trainer_where_the_sampler_is_the_old_policy() -> None:
    sampler = torch.zeros(1, 2)
    scores = Scores(torch.full((1, 2), 0.25), torch.ones(1, 2).bool(), sampler, sampler=sampler)
    found = objective(scores, torch.tensor([1.0]), config(), Totals(1, 2))
    assert found.stats.peaks["mismatch/max"] == 0.25


@pytest.mark.parametrize(
    "setting",
    [
        {"ratio": "token"},
        {"aggregation": "token_mean"},
        {"eps_low": 0.01},
        {"eps_high": 0.01},
        {"beta": 0.1},
        {"tis_cap": 2.0},
        {"entropy": 0.1},
        {"dual_clip": 1.29},
    ],
)
def test_every_setting_of_the_objective_changes_the_loss(setting: dict[str, Any]) -> None:
    clipped_up_and_down = torch.tensor([[0.5], [1.0], [-0.6]])
    scores = full_scores(drawn(2) + clipped_up_and_down + drawn(6, 0.6) + 1.0)
    plain, changed = (objective(scores, ADVANTAGES, config(**v), totals(MASK)).loss.item() for v in ({}, setting))
    assert abs(plain - changed) > 1e-4


def test_a_row_that_only_keeps_others_company_has_no_ratio() -> None:
    mask = torch.tensor([[True], [False]])
    for ratio in ("token", "sequence"):
        found = objective(Scores(torch.zeros(2, 1), mask), torch.ones(2), config(ratio=ratio), Totals(1, 1))
        assert len(found.stats.ratios) == 1
        assert found.stats.shares["ratio/one"] == 1.0


def test_quantiles_are_those_of_their_names() -> None:
    values = summary([Stats({}, {}, np.arange(101, dtype=np.float32))])
    assert [values[f"ratio/{name}"] for name in ("q01", "q50", "q99")] == [1.0, 50.0, 99.0]
