"""Student's t for a handful of seeds: intervals of a mean, paired tests, the difference that could have been seen."""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlagent.types import Record


class Spread(Record):
    """A mean over seeds and how sure it is."""

    n: int
    mean: float
    sd: float | None
    """Sample standard deviation (ddof 1); None of one value."""
    interval: tuple[float, float] | None
    """95 %, by Student's t."""


class PairedT(Record):
    """Differences paired by seed."""

    n: int
    mean: float
    interval: tuple[float, float] | None
    p_value: float | None
    """Two-sided; None of one pair. 0 where all differences are the same and not 0, 1 where all are 0."""
    detectable: float | None
    """Smallest true difference that a two-sided test at 5 % finds with 80 % probability, from the spread that was
    measured: (t_{0.975} + t_{0.8}) * sd / sqrt(n)."""


def spread(values: Sequence[float]) -> Spread:
    """Mean, standard deviation and interval of at least one value."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Spread(n=1, mean=mean, sd=None, interval=None)
    sd = _sd(values, mean)
    half = t_quantile(0.975, len(values) - 1) * sd / math.sqrt(len(values))
    return Spread(n=len(values), mean=mean, sd=sd, interval=(mean - half, mean + half))


def paired_t(differences: Sequence[float]) -> PairedT:
    """The paired t-test of at least one difference against 0."""
    whole = spread(differences)
    if whole.sd is None:
        return PairedT(n=1, mean=whole.mean, interval=None, p_value=None, detectable=None)
    df, error = whole.n - 1, whole.sd / math.sqrt(whole.n)
    p = 2 * (1 - t_cdf(abs(whole.mean) / error, df)) if error > 0 else float(whole.mean == 0)
    detectable = (t_quantile(0.975, df) + t_quantile(0.8, df)) * error
    return PairedT(n=whole.n, mean=whole.mean, interval=whole.interval, p_value=min(1.0, p), detectable=detectable)


def _sd(values: Sequence[float], mean: float) -> float:
    if min(values) == max(values):
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def t_cdf(t: float, df: int) -> float:
    """P(T <= t) for whole degrees of freedom, by the finite series in the angle atan(t / sqrt(df)).

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
    """
    if df < 1:
        raise ValueError(f"{df} degrees of freedom")
    angle = math.atan(abs(t) / math.sqrt(df))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = df % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for k in range(1 + odd, df, 2):
        total += term
        term *= square * k / (k + 1)
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return 0.5 + math.copysign(inside / 2, t)


def t_quantile(p: float, df: int) -> float:
    """The p-quantile, by halving; 2.776 at p = 0.975 and 4 degrees of freedom."""
    if not 0 < p < 1:
        raise ValueError(f"quantile at {p}")
    low, high = -1.0, 1.0
    while t_cdf(low, df) > p:
        low *= 2
    while t_cdf(high, df) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, df) < p else (low, middle)
    return (low + high) / 2


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted for being several (Holm 1979); None stays None and is not counted."""
    known = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, i) in enumerate(known):
        highest = max(highest, min(1.0, p * (len(known) - rank)))
        adjusted[i] = highest
    return adjusted
