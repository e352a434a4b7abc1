"""Our objective against veRL's own losses and estimators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="veRL has an environment of its own: make test-verl")

import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

from tests.train.rl.algorithms.parts import advantage, rewards_of
from vlagent.train.rl.algorithms.config import ALGORITHM_PRESETS, AlgorithmConfig
from vlagent.train.rl.algorithms.objective import Scores, Totals, objective

B, L = 6, 24
AGGREGATION = {"sequence_mean": "seq-mean-token-mean", "token_mean": "token-mean"}
LOSS = {"token": "vanilla", "sequence": "gspo"}


def drawn(seed: int, spread: float) -> Any:
    return spread * torch.randn(B, L, generator=torch.Generator().manual_seed(seed)) - 1.5


def scores_of(seed: int, spread: float) -> Scores:
    mask = torch.rand(B, L, generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[:, 0] = True
    old = drawn(seed + 1, 0.5)
    new = (old + spread * (drawn(seed + 2, 1.0) + 1.5)).requires_grad_()
    return Scores(new, mask, old, new.detach() + 0.5 * (drawn(seed + 3, 1.0) + 1.5))


def verl_loss(scores: Scores, advantages: Any, config: AlgorithmConfig) -> Any:
    """What veRL's actor minimises: its policy loss and its KL term, over one batch on one process."""
    actor = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=config.eps_low,
        clip_ratio_high=config.eps_high,
        clip_ratio_c=config.dual_clip or 1e6,
    )
    mode = AGGREGATION[config.aggregation]
    mask = scores.mask.float()
    policy = core_algos.get_policy_loss_fn(LOSS[config.ratio])
    loss, _ = policy(scores.old, scores.new, advantages[:, None].expand(B, L), mask, mode, actor)
    if config.beta > 0:
        kl = core_algos.kl_penalty(scores.new, scores.ref, "low_var_kl")
        loss = loss + config.beta * core_algos.agg_loss(kl, mask, mode)
    return loss


def assert_same(scores: Scores, config: AlgorithmConfig, seed: int) -> None:
    """Loss and gradient, both to 1e-5."""
    advantages = torch.randn(B, generator=torch.Generator().manual_seed(seed + 9))
    ours = objective(scores, advantages, config, Totals(B, int(scores.mask.sum()))).loss
    (gradient,) = torch.autograd.grad(ours, scores.new)
    theirs = verl_loss(scores, advantages, config)
    (expected,) = torch.autograd.grad(theirs, scores.new)
    assert gradient.abs().max() > 1e-4
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean"])
@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize("spread", [0.02, 0.5])
def test_loss_and_gradient_equal_those_of_verl(ratio: Any, aggregation: Any, beta: float, spread: float) -> None:
    for seed in range(0, 30, 10):
        config = AlgorithmConfig(ratio=ratio, aggregation=aggregation, beta=beta)
        assert_same(scores_of(seed, spread), config, seed)


@pytest.mark.parametrize("preset", ALGORITHM_PRESETS)
def test_the_published_settings_have_verls_loss(preset: str) -> None:
    config = AlgorithmConfig.model_validate(ALGORITHM_PRESETS[preset])
    for seed in range(0, 30, 10):
        assert_same(scores_of(seed, 1.0 if config.dual_clip else 0.3), config, seed)


def test_verl_bounds_the_kl_estimate_of_a_token_at_ten_and_ours_does_not() -> None:
    scores = scores_of(1, 0.0)
    far = Scores(scores.new, scores.mask, scores.old, scores.new.detach() + 3.0)
    config, size = AlgorithmConfig(beta=1.0), Totals(B, int(scores.mask.sum()))
    ours = objective(far, torch.zeros(B), config, size).loss
    assert ours.item() == pytest.approx(np.exp(3.0) - 4.0, rel=1e-5)
    assert verl_loss(far, torch.zeros(B), config).item() == pytest.approx(10.0)


def verl_advantages(name: str, totals: Any, group: Any, **options: Any) -> Any:
    """Sequence values of one of veRL's estimators, for rewards that stand on the last of three tokens."""
    rewards = torch.zeros(len(totals), 3)
    rewards[:, -1] = torch.tensor(totals, dtype=torch.float32)
    mask = torch.ones(len(totals), 3)
    index = np.array([str(number) for number in group], dtype=object)
    found, _ = core_algos.get_adv_estimator_fn(name)(rewards, mask, index=index, **options)
    return found[:, 0].numpy()


def test_group_advantages_equal_those_of_verl() -> None:
    rewards = rewards_of([[1, 0, 0.5, 1.5], [1, 1, 0], [0, 1]])
    theirs = verl_advantages("grpo", rewards.total, rewards.group)
    assert advantage("grpo", rewards).values == pytest.approx(theirs, abs=1e-5)
    plain = verl_advantages("grpo", rewards.total, rewards.group, norm_adv_by_std_in_grpo=False)
    assert advantage("dr_grpo", rewards).values == pytest.approx(plain, abs=1e-5)


def test_verls_float32_takes_noise_for_a_signal_and_ours_does_not() -> None:
    rewards = rewards_of([[0.7] * 7, [1.3] * 7])
    assert abs(verl_advantages("grpo", rewards.total, rewards.group)).max() > 0.05
    assert not advantage("grpo", rewards).values.any()
