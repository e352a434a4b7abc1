"""Statistics of right and wrong: each is a small function with its formula, tested by hand-computed values.

S = samples, R = rollouts of a sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Z95 = 1.959963984540054
"""Two-sided 95 % point of the normal distribution."""


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def clustered_standard_error(clusters: Sequence[Sequence[float]]) -> float | None:
    """Standard error of the pooled mean of values that come in clusters (S lists of R rollouts).

    sqrt(m / (m - 1) * sum_i (sum_j (x_ij - p))^2) / N for m clusters and N values, so that rollouts of one question
    are not taken for independent questions. With one value a cluster it is s / sqrt(N). None below two clusters.
    """
    used = [cluster for cluster in clusters if cluster]
    if len(used) < 2:
        return None
    count = sum(map(len, used))
    p = math.fsum(math.fsum(cluster) for cluster in used) / count
    squares = math.fsum(math.fsum(x - p for x in cluster) ** 2 for cluster in used)
    return math.sqrt(len(used) / (len(used) - 1) * squares) / count


def wilson_interval(right: int, count: int, z: float = Z95) -> tuple[float, float] | None:
    """Wilson's score interval of a share of independent items; it stays within [0, 1]. None of nothing."""
    if count == 0:
        return None
    p, z2 = right / count, z * z
    centre = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = z / (1 + z2 / count) * math.sqrt(p * (1 - p) / count + z2 / (4 * count * count))
    return (0.0 if right == 0 else centre - half), (1.0 if right == count else centre + half)


def pass_at_k(count: int, right: int, k: int) -> float:
    """Unbiased probability that k of `count` rollouts hold a right one: 1 - C(n-c, k) / C(n, k) (arXiv 2107.03374)."""
    if not 0 <= right <= count or not 1 <= k <= count:
        raise ValueError(f"pass@{k} of {right} right among {count}")
    return 1.0 - math.comb(count - right, k) / math.comb(count, k)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact p-value of McNemar's test, from the numbers of discordant pairs (binomial at 1/2)."""
    n, low = only_first + only_second, min(only_first, only_second)
    if n == 0:
        return 1.0
    tail = sum(math.comb(n, i) for i in range(low + 1))
    return min(1.0, float(2 * tail / 2**n))


def bootstrap_interval(
    values: NDArray[np.float64],
    statistic: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    *,
    seed: int,
    draws: int = 10_000,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Percentile bootstrap over the rows of `values` [S, ...]; `statistic` maps [draws, S, ...] to [draws].

    The same seed gives the same interval. None below two rows.
    """
    if len(values) < 2:
        return None
    rng = np.random.default_rng(seed)
    found = []
    for start in range(0, draws, 500):
        picked = rng.integers(0, len(values), size=(min(500, draws - start), len(values)))
        found.append(statistic(values[picked]))
    low, high = np.quantile(np.concatenate(found), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def quantile(values: Sequence[float], q: float) -> float | None:
    """The q-quantile by linear interpolation, or None of nothing."""
    return float(np.quantile(np.asarray(values), q)) if values else None
