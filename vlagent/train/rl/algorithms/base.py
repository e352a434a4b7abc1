"""What an advantage function takes and gives. Numpy only, in float64; nothing here knows a model.

Shape letters: N = sequences that are compared with one another, of one optimizer minibatch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from vlagent.types import Record

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class AdvantageConfig(Record):
    """How rewards become advantages."""

    advantage: str = "bn_gspo"
    """A name of `registry.ADVANTAGES` or of the entry-point group `vlagent.advantages`."""
    exclude_degenerate: bool = False
    """Leave degenerate groups out of the batch mean and spread; arXiv 2512.24330, eq. 3, keeps their zeros in."""
    bn_max_factor: float | None = Field(default=None, gt=0)
    """Largest factor of batch normalisation; None lets it grow without bound (12 where 1 group of 128 teaches)."""


@dataclass(frozen=True, eq=False)
class Rewards:
    """The rewards of the sequences of one optimizer minibatch, e.g. two groups of two: total [1.5, 0.5, 0, 0]."""

    total: F64
    """[N]; the weighted sum of the parts."""
    parts: dict[str, F64]
    """Name -> [N], unweighted."""
    weights: dict[str, float]
    group: Numbers
    """[N]; sequences of one prompt share a number, in any order."""
    inside: Flags | None = None
    """[N]; False on members of a split group that another minibatch trains: they count for their group only."""

    def only(self, inside: Flags) -> Rewards:
        """The minibatch of the sequences where `inside` [N] is True; group statistics stay those of whole groups."""
        return replace(self, inside=inside)

    @property
    def here(self) -> Flags:
        """[N]; True on the sequences of this minibatch."""
        return np.ones(len(self.total), np.bool_) if self.inside is None else self.inside


@dataclass(frozen=True, eq=False)
class Advantages:
    """What each sequence is worth to the objective."""

    values: F64
    """[N]; exactly 0.0 where degenerate, and outside of the minibatch."""
    degenerate: Flags
    """[N]; True where all that the sequence is compared with had the same reward, so that it teaches nothing."""
    p: float
    """Share of the minibatch's groups that are not degenerate; 0: skip the step."""
    factor: float | None
    """What batch normalisation multiplied by; None where there is none."""


AdvantageFn = Callable[[Rewards, AdvantageConfig], Advantages]
