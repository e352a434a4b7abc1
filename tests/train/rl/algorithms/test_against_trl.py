"""Our loss against TRL's own `_compute_loss`, which is called as it stands in the installed TRL."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

from trl import GRPOTrainer  # noqa: E402

from vlagent.train.rl.algorithms.config import ALGORITHM_PRESETS, AlgorithmConfig  # noqa: E402
from vlagent.train.rl.algorithms.objective import Scores, Totals, objective  # noqa: E402

B, L = 6, 20
LOSS_TYPE = {"sequence_mean": "grpo", "token_mean": "dapo"}


def drawn(seed: int, spread: float) -> Any:
    return spread * torch.randn(B, L, generator=torch.Generator().manual_seed(seed)) - 1.5


def scores_of(seed: int, spread: float) -> Scores:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.rand(B, L, generator=generator) < 0.6
    mask[:, 0] = True
    old = drawn(seed + 1, 0.5)
    new = (old + spread * drawn(seed + 2, 1.0) + 1.5 * spread).requires_grad_()
    return Scores(new, mask, old, drawn(seed + 3, 0.5), drawn(seed + 4, 0.5), entropy=drawn(seed + 5, 0.5).abs())


class FakeTrainer(SimpleNamespace):
    """What `_compute_loss` reads of its trainer; the log-probabilities come from the test instead of a model."""

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        return self.scores.new, self.scores.entropy, None


def trl_loss(scores: Scores, advantages: Any, config: AlgorithmConfig, **more: Any) -> Any:
    """TRL's loss of one optimizer step that is one forward pass on one process."""
    accelerator = SimpleNamespace(
        num_processes=1,
        reduce=lambda x, reduction: x,
        gather=lambda x: x,
        gather_for_metrics=lambda x: x,
        sync_gradients=False,
    )
    trainer = FakeTrainer(
        scores=scores,
        model=SimpleNamespace(training=True),
        accelerator=accelerator,
        args=SimpleNamespace(delta=config.dual_clip, use_bias_correction_kl=False, steps_per_generation=1),
        importance_sampling_level=config.ratio,
        loss_type=LOSS_TYPE[config.aggregation],
        epsilon_low=config.eps_low,
        epsilon_high=config.eps_high,
        beta=config.beta,
        current_gradient_accumulation_steps=1,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        aux_loss_enabled=False,
        use_vllm=config.tis_cap is not None,
        vllm_importance_sampling_correction=True,
        use_adaptive_entropy=False,
        _entropy_bonus_enabled=config.entropy > 0,
        entropy_coef=config.entropy,
        _metrics={"train": defaultdict(list)},
        **more,
    )
    inputs = {
        "prompt_ids": torch.zeros(B, 3, dtype=torch.long),
        "prompt_mask": torch.ones(B, 3, dtype=torch.long),
        "completion_ids": torch.zeros(B, L, dtype=torch.long),
        "completion_mask": torch.ones(B, L, dtype=torch.long),
        "tool_mask": scores.mask.long(),
        "advantages": advantages,
        "old_per_token_logps": scores.old,
        "ref_per_token_logps": scores.ref,
        "num_items_in_batch": scores.mask.sum(),
    }
    if config.tis_cap is not None and scores.old is not None and scores.sampler is not None:
        inputs["importance_sampling_ratio"] = (scores.old - scores.sampler).exp().clamp(max=config.tis_cap)
    return GRPOTrainer._compute_loss(trainer, None, inputs)


def assert_same(scores: Scores, config: AlgorithmConfig, seed: int = 0) -> None:
    """Loss and gradient, both to 1e-5."""
    advantages = torch.randn(B, generator=torch.Generator().manual_seed(seed + 9))
    ours = objective(scores, advantages, config, Totals(B, int(scores.mask.sum()))).loss
    (gradient,) = torch.autograd.grad(ours, scores.new)
    theirs = trl_loss(scores, advantages, config)
    (expected,) = torch.autograd.grad(theirs, scores.new)
    assert gradient.abs().max() > 1e-4
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-5)
    assert torch.allclose(gradient, expected, atol=1e-5)


@pytest.mark.parametrize("ratio", ["token", "sequence"])
@pytest.mark.parametrize("aggregation", ["sequence_mean", "token_mean"])
@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize("spread", [0.02, 0.5])
def test_loss_and_gradient_equal_those_of_trl(ratio: Any, aggregation: Any, beta: float, spread: float) -> None:
    for seed in range(0, 30, 10):
        assert_same(scores_of(seed, spread), AlgorithmConfig(ratio=ratio, aggregation=aggregation, beta=beta), seed)


@pytest.mark.parametrize("preset", ALGORITHM_PRESETS)
def test_the_published_settings_have_trls_loss(preset: str) -> None:
    for seed in range(0, 30, 10):
        assert_same(scores_of(seed, 0.3), AlgorithmConfig.model_validate(ALGORITHM_PRESETS[preset]), seed)


def test_dual_clip_is_trls_two_sided_clipping() -> None:
    assert_same(scores_of(5, 1.5), AlgorithmConfig(ratio="token", dual_clip=1.5, beta=0.0))


def test_truncated_importance_sampling_is_trls() -> None:
    assert_same(scores_of(6, 0.3), AlgorithmConfig(ratio="token", tis_cap=1.2, beta=0.01))


def test_without_old_log_probabilities_both_are_on_policy() -> None:
    full = scores_of(7, 0.3)
    assert_same(Scores(full.new, full.mask, ref=full.ref, entropy=full.entropy), AlgorithmConfig(beta=0.01))
