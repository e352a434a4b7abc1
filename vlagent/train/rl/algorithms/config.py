"""What an algorithm is: how rewards become advantages, and what becomes of them. Importable without torch."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from vlagent.errors import UserError
from vlagent.train.rl.algorithms.base import AdvantageConfig
from vlagent.train.rl.algorithms.registry import get_advantage


class AlgorithmConfig(AdvantageConfig):
    """One algorithm of policy gradients. The defaults are those of the preset `mars-paper`."""

    ratio: Literal["token", "sequence"] = "sequence"
    """One importance ratio a token (GRPO), or the geometric mean over a sequence (GSPO)."""
    aggregation: Literal["sequence_mean", "token_mean"] = "sequence_mean"
    """Mean over a sequence's tokens, then over sequences; or all tokens of the minibatch weigh the same."""
    eps_low: float = Field(default=0.2, ge=0, le=1)
    """The ratio is clipped to [1 - eps_low, 1 + eps_high]."""
    eps_high: float = Field(default=0.28, ge=0)
    beta: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    """Weight of KL(policy || reference); 0 needs no reference model."""
    dual_clip: float | None = Field(default=None, gt=1)
    """Largest ratio where the advantage is negative (arXiv 1912.09729); None is without."""
    tis_cap: float | None = Field(default=None, gt=0)
    """Largest weight of truncated importance sampling, trainer over sampler; None is without."""
    entropy: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of the entropy bonus."""

    @model_validator(mode="after")
    def _is_an_algorithm(self) -> Self:
        try:
            get_advantage(self.advantage)
        except UserError as error:
            raise ValueError(str(error)) from None
        if self.dual_clip is not None and self.dual_clip <= 1 + self.eps_high:
            raise ValueError(f"dual_clip {self.dual_clip} must be above 1 + eps_high = {1 + self.eps_high}")
        return self


ALGORITHM_PRESETS: dict[str, dict[str, Any]] = {
    "mars-paper": {
        "advantage": "bn_gspo",
        "ratio": "sequence",
        "aggregation": "sequence_mean",
        "eps_low": 0.2,
        "eps_high": 0.28,
        "beta": 1e-4,
    },
    "mars-released-script": {
        "advantage": "grpo",
        "ratio": "token",
        "aggregation": "token_mean",
        "eps_low": 0.2,
        "eps_high": 0.28,
        "beta": 0.0,
        "dual_clip": 3.0,
    },
    "gspo-paper": {
        "advantage": "gspo",
        "ratio": "sequence",
        "aggregation": "sequence_mean",
        "eps_low": 3e-4,
        "eps_high": 4e-4,
        "beta": 0.0,
    },
}
"""Published settings: SenseNova-MARS (arXiv 2512.24330), its released training script, GSPO (arXiv 2507.18071)."""
