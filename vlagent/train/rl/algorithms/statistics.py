"""The arithmetic that advantages share: centring and scaling within groups and over the minibatch.

Shape letters: N = sequences, B = groups.
"""

from __future__ import annotations

import numpy as np

from vlagent.train.rl.algorithms.base import F64, AdvantageConfig, Advantages, Flags, Numbers, Rewards

EPS = 1e-6
"""Added to the standard deviation of a group (arXiv 2402.03300)."""
SAME = 1e-9
"""Rewards of a group that differ by less, relative to the largest, are the same reward plus float noise."""


def group_degenerate(values: F64, group: Numbers) -> Flags:
    """[N]; True where all values [N] of the group are the same, also in a group of one."""
    index, sizes = _groups(group)
    low, high = np.full(len(sizes), np.inf), np.full(len(sizes), -np.inf)
    np.minimum.at(low, index, values)
    np.maximum.at(high, index, values)
    flags: Flags = (high - low <= SAME * np.maximum(1.0, np.maximum(abs(low), abs(high))))[index]
    return flags


def group_centred(values: F64, group: Numbers) -> F64:
    """[N]; values minus the mean of their group, exactly 0.0 in degenerate groups."""
    index, sizes = _groups(group)
    means = np.bincount(index, values, len(sizes)) / sizes
    return np.where(group_degenerate(values, group), 0.0, values - means[index])


def group_standardised(values: F64, group: Numbers) -> F64:
    """[N]; (value - mean) / (std + 1e-6) within the group, std with ddof 1; exactly 0.0 in degenerate groups."""
    index, sizes = _groups(group)
    centred = group_centred(values, group)
    spread = np.sqrt(np.bincount(index, centred**2, len(sizes)) / np.maximum(sizes - 1, 1))
    return centred / (spread[index] + EPS)


def batch_normalised(values: F64, counted: Flags, config: AdvantageConfig) -> tuple[F64, float | None]:
    """(value - mean) x factor, [N], and the factor: 1 / population std (ddof 0), both over the counted values.

    All zeros and no factor where the counted values do not differ.
    """
    chosen = values[counted]
    if chosen.size == 0 or np.ptp(chosen) <= SAME * max(1.0, float(abs(chosen).max())):
        return np.zeros_like(values), None
    factor = 1.0 / float(chosen.std())
    if config.bn_max_factor is not None:
        factor = min(factor, config.bn_max_factor)
    return (values - chosen.mean()) * factor, factor


def normalised_over_batch(values: F64, degenerate: Flags, rewards: Rewards, config: AdvantageConfig) -> Advantages:
    """Advantages from values [N] that are comparable over groups already, by batch normalisation."""
    counted = rewards.here & ~degenerate if config.exclude_degenerate else rewards.here
    normal, factor = batch_normalised(values, counted, config)
    return advantages(normal, degenerate, rewards, factor)


def advantages(values: F64, degenerate: Flags, rewards: Rewards, factor: float | None = None) -> Advantages:
    """Values [N] with zeros where nothing is taught or trained here, and the share p of groups that teach."""
    here = rewards.here
    taught = len(np.unique(rewards.group[here & ~degenerate]))
    p = taught / max(1, len(np.unique(rewards.group[here])))
    return Advantages(np.where(here & ~degenerate, values, 0.0), degenerate, p, factor)


def _groups(group: Numbers) -> tuple[Numbers, Numbers]:
    """Number from 0 of each sequence's group [N], and the groups' sizes [B]."""
    _, index, sizes = np.unique(group, return_inverse=True, return_counts=True)
    return index, sizes
