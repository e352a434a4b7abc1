"""What a pass tells about the objective, and how the passes of a minibatch are put together. Numpy only.

Shape letter: K = importance ratios of a pass, one a sequence or one a token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = {"q01": 0.01, "q50": 0.5, "q99": 0.99}


@dataclass(frozen=True, eq=False)
class Stats:
    """Numbers of one pass, free of tensors: processes can send them to one another."""

    shares: dict[str, float]
    """Divided by the totals of the global minibatch, like the loss: passes add up."""
    peaks: dict[str, float]
    """Of several passes the largest counts."""
    ratios: NDArray[np.float32]
    """[K]"""

    @classmethod
    def of(cls, shares: Mapping[str, Any], peaks: Mapping[str, Any], ratios: Any) -> Stats:
        """From scalar tensors and the tensor of ratios [K]."""
        return cls(
            {name: float(value) for name, value in shares.items()},
            {name: float(value) for name, value in peaks.items()},
            ratios.float().cpu().numpy(),
        )


def summary(passes: Sequence[Stats]) -> dict[str, float]:
    """Of all passes of one global minibatch, from all processes: clip/, ratio/, mismatch/, kl, entropy by flat name.

    `clip/low`, `clip/high` and `clip/dual` are shares of ratios whose gradient the clip removed.
    """
    joined: dict[str, float] = {}
    for one in passes:
        for name, value in one.shares.items():
            joined[name] = joined.get(name, 0.0) + value
        for name, value in one.peaks.items():
            joined[name] = max(joined.get(name, 0.0), value)
    ratios = np.concatenate([one.ratios for one in passes]) if passes else np.empty(0, np.float32)
    if ratios.size:
        joined |= {f"ratio/{name}": float(np.quantile(ratios, q)) for name, q in QUANTILES.items()}
        joined |= {"ratio/min": float(ratios.min()), "ratio/max": float(ratios.max())}
    return joined
