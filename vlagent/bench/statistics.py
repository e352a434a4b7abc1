"""How sure a score is where questions share a picture, and when a run says nothing at all.

Questions about one picture stand or fall together (HR-Bench asks each question four times with its options in turn), so
they are one draw, not several: the clustered standard error and a bootstrap over clusters (Cameron and Miller, "A
Practitioner's Guide to Cluster-Robust Inference", 2015; Miller, "Adding Error Bars to Evals", arXiv 2411.00640).

C = clusters, S = samples, R = rollouts of a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from vlagent.bench.metrics import clustered_standard_error
from vlagent.types import Record, Sample

DRAWS = 10_000
CHUNK = 500
"""Bootstrap draws at one time; bounds the memory."""


class Clustered(Record):
    """The mean of values that come in clusters, and how sure it is."""

    mean: float | None
    standard_error: float | None
    """Clustered; None below two clusters."""
    interval: tuple[float, float] | None
    """95 %, percentile bootstrap over clusters; None below two clusters."""
    values: int
    clusters: int


class Validity(Record):
    """Whether the scores of a run may be quoted."""

    valid: bool
    failed_share: float
    """Failed and unscored episodes among all that count."""
    limit: float
    why: str = ""
    """One line; empty where the run is valid."""


def picture_clusters(samples: Iterable[Sample]) -> dict[str, str]:
    """Sample id -> the id of the first sample of its cluster; samples that share a picture are of one cluster.

    Sharing is transitive: one question about pictures a and b joins those about a with those about b. A sample without
    a picture is a cluster of its own.
    """
    parent: dict[str, str] = {}
    first_with: dict[str, str] = {}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    order: dict[str, int] = {}
    for sample in samples:
        order[sample.id] = len(order)
        parent.setdefault(sample.id, sample.id)
        for image in sample.images:
            one, other = root(sample.id), root(first_with.setdefault(image.path, sample.id))
            parent[max(one, other, key=order.__getitem__)] = min(one, other, key=order.__getitem__)
    return {name: root(name) for name in order}


def in_clusters(values: Mapping[str, Sequence[float]], cluster_of: Mapping[str, str]) -> list[list[float]]:
    """The values of each sample (sample id -> R values), pooled by cluster; samples without a value are left out."""
    pooled: dict[str, list[float]] = {}
    for name, own in values.items():
        if own:
            pooled.setdefault(cluster_of.get(name, name), []).extend(own)
    return list(pooled.values())


def clustered(clusters: Sequence[Sequence[float]], *, seed: int = 0, draws: int = DRAWS) -> Clustered:
    """Mean, clustered standard error and cluster bootstrap interval of C lists of values."""
    used = [cluster for cluster in clusters if cluster]
    count = sum(map(len, used))
    return Clustered(
        mean=sum(map(sum, used)) / count if count else None,
        standard_error=clustered_standard_error(used),
        interval=cluster_bootstrap(used, seed=seed, draws=draws),
        values=count,
        clusters=len(used),
    )


def cluster_bootstrap(
    clusters: Sequence[Sequence[float]], *, seed: int, draws: int = DRAWS, level: float = 0.95
) -> tuple[float, float] | None:
    """Percentile interval of the pooled mean: C clusters are drawn with replacement, each with all its values.

    The same seed gives the same interval. None below two clusters.
    """
    used = [cluster for cluster in clusters if cluster]
    if len(used) < 2:
        return None
    sums = np.asarray([sum(cluster) for cluster in used], dtype=np.float64)
    """[C]"""
    sizes = np.asarray([len(cluster) for cluster in used], dtype=np.float64)
    """[C]"""
    rng = np.random.default_rng(seed)
    means = [_draw(sums, sizes, min(CHUNK, draws - start), rng) for start in range(0, draws, CHUNK)]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _draw(
    sums: NDArray[np.float64], sizes: NDArray[np.float64], draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Pooled means of `draws` resamples, [draws]."""
    picked = rng.integers(0, len(sums), size=(draws, len(sums)))
    means: NDArray[np.float64] = sums[picked].sum(axis=1) / sizes[picked].sum(axis=1)
    return means


def validity(*, failed: int, unscored: int, total: int, limit: float) -> Validity:
    """A run in which more than `limit` of all episodes failed or stayed without a verdict is invalid.

    What failed may well be the hard part, so that the score of the rest is the score of another question set.
    """
    if not 0 <= limit <= 1:
        raise ValueError(f"limit = {limit}: a share between 0 and 1")
    share = (failed + unscored) / total if total else 0.0
    if total == 0:
        return Validity(valid=False, failed_share=0.0, limit=limit, why="no episode was scored")
    if share <= limit:
        return Validity(valid=True, failed_share=share, limit=limit)
    lost = f"{failed} failed and {unscored} unscored of {total} episodes"
    why = f"invalid: {lost} ({100 * share:.1f} %) are more than {100 * limit:g} %"
    return Validity(valid=False, failed_share=share, limit=limit, why=why)
