"""Which questions a step gets: mixed by weight, in a seeded order, by measured difficulty if wanted.

What a step holds is a pure function of (seed, step), so the position in the data is one number and a resumed run needs
nothing else. The mixes of the paper's table 4 (search, perception, hybrid) are filters and weights here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from vlagent.bench.columns import only_where, unknown_column
from vlagent.bench.pass_rates import pass_rates
from vlagent.data.manifest import load_samples
from vlagent.data.rows import with_unique_ids
from vlagent.data.sealed import refuse_canaries
from vlagent.errors import UserError
from vlagent.randomness import rng_of, seed_of
from vlagent.types import Group, Record, Sample

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it fill [0, 1) more evenly than random numbers do: after any number of draws the shares are right."""
SAME = 1e-9
"""Rewards closer than this are equal."""


class MixSource(Record):
    """Questions of one manifest, and how often they are asked."""

    data: str
    """As `vlagent eval` takes it: `manifest.json:entry`, rows, a folder."""
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Share of the prompts, relative to the other sources'; the number of its questions does not matter."""
    where: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Only questions whose kind, difficulty, category, ... or `source` is one of these: {kind = ["fact", "place"]}."""
    limit: int | None = Field(default=None, ge=1)
    """The first questions that pass."""


class CurriculumConfig(Record):
    """Questions by how often a policy gets them right, measured before."""

    pass_rates: str
    """Folder of `vlagent eval --k 8`, or JSON lines of `sample_id` and `pass_rate`; the unmeasured are left out."""
    low: float = Field(default=0.0, ge=0, le=1)
    """The lowest pass rate that is asked; above 0 leaves out what is never solved."""
    high: float = Field(default=1.0, ge=0, le=1)
    """The highest; below 1 leaves out what is always solved."""
    ramp_steps: int = Field(default=0, ge=0)
    """Steps in which the lowest pass rate falls from `start` to `low`: the easy ones first."""
    start: float = Field(default=0.75, ge=0, le=1)

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if self.low > self.high or (self.ramp_steps and not self.low <= self.start <= self.high):
            raise ValueError(f"low {self.low} <= start {self.start} <= high {self.high} is needed")
        return self

    def lowest(self, step: int) -> float:
        """The lowest pass rate of a step, counted from 0."""
        left = 1 - step / self.ramp_steps if self.ramp_steps else 0.0
        return self.low + (self.start - self.low) * max(0.0, left)


class DataConfig(Record):
    """The questions of a run."""

    sources: tuple[MixSource, ...] = Field(min_length=1)
    curriculum: CurriculumConfig | None = None
    dynamic_sampling: int = Field(default=0, ge=0)
    """Rounds in which groups whose rewards are all equal are replaced by groups of fresh questions (DAPO, 2503.14476);
    0 is off. What is still equal after them stays, so that a step keeps its size."""


@dataclass(frozen=True)
class _Pool:
    samples: tuple[Sample, ...]
    rates: tuple[float, ...]
    """Pass rate of each; 1 where none is asked for."""

    def at(self, lowest: float) -> list[Sample]:
        return [sample for sample, rate in zip(self.samples, self.rates, strict=True) if rate >= lowest]


class Questions:
    """The questions of a run, opened once. Raises `UserError` where a source holds none."""

    def __init__(self, config: DataConfig, seed: int) -> None:
        self.config, self._seed = config, seed
        rates = pass_rates(Path(config.curriculum.pass_rates)) if config.curriculum else None
        taken: dict[str, Sample] = {}
        self._pools = [_pool(config, number, rates, taken, seed) for number in range(len(config.sources))]
        self._bounds = np.cumsum([source.weight for source in config.sources])

    @property
    def samples(self) -> list[Sample]:
        """All of them, each once."""
        return list({sample.id: sample for pool in self._pools for sample in pool.samples}.values())

    def draw(self, step: int, count: int, refill: int = 0) -> list[Sample]:
        """The `count` questions of a step, counted from 0; `refill` numbers further draws for the same step.

        One that comes twice in a step (at the end of a pass) is named `id~2`, since randomness is keyed by the id.
        """
        curriculum = self.config.curriculum
        if refill:
            drawn = self._drawn_freely(count, step, "refill", refill)
        elif curriculum and step < curriculum.ramp_steps:
            drawn = self._drawn_freely(count, step, "ramp", 0)
        else:
            drawn = self._in_order(step, count)
        return with_unique_ids(drawn)

    def _in_order(self, step: int, count: int) -> list[Sample]:
        sources = self._sources((step + 1) * count)
        drawn = []
        for place in range(step * count, (step + 1) * count):
            number = int(sources[place])
            drawn.append(self._nth(number, int((sources[:place] == number).sum())))
        return drawn

    def _sources(self, count: int) -> NDArray[np.int64]:
        """The source of each of the first `count` prompts of the run."""
        start = rng_of(self._seed, "mix").random()
        spread = (start + GOLDEN * np.arange(1, count + 1)) % 1.0
        found = np.searchsorted(self._bounds, spread * self._bounds[-1], side="right")
        last: NDArray[np.int64] = np.minimum(found, len(self._pools) - 1).astype(np.int64)
        return last

    def _nth(self, number: int, n: int) -> Sample:
        """The n-th question of a source: all of them once in each pass, every pass in another order."""
        samples = self._pools[number].samples
        lap, place = divmod(n, len(samples))
        order = list(range(len(samples)))
        rng_of(self._seed, "order", number, lap).shuffle(order)
        return samples[order[place]]

    def _drawn_freely(self, count: int, step: int, why: str, refill: int) -> list[Sample]:
        """Questions that are no part of the passes through the data; no question twice while there are others."""
        rng = rng_of(self._seed, why, step, refill)
        lowest = self.config.curriculum.lowest(step) if self.config.curriculum else 0.0
        pools = [pool.at(lowest) or list(pool.samples) for pool in self._pools]
        for pool in pools:
            rng.shuffle(pool)
        weights = [source.weight for source in self.config.sources]
        taken = [0] * len(pools)
        drawn = []
        for number in rng.choices(range(len(pools)), weights, k=count):
            drawn.append(pools[number][taken[number] % len(pools[number])])
            taken[number] += 1
        return drawn


def _pool(
    config: DataConfig, number: int, rates: dict[str, float] | None, taken: dict[str, Sample], seed: int
) -> _Pool:
    source = config.sources[number]
    asked = load_samples(source.data, seed=seed)
    refuse_canaries(asked, f"data.sources[{number}]")
    found = only_where(asked, source.where)[: source.limit]
    if asked and (wrong := unknown_column(asked, source.where)):
        raise UserError(f"data.sources[{number}].where: {wrong[0]!r} is no column; there are {wrong[1]}")
    if not found:
        raise UserError(f"data.sources[{number}]: no question of {source.data} has {source.where}; correct `where`")
    measured = [1.0 if rates is None else rates.get(sample.id, -1.0) for sample in found]
    low, high = (config.curriculum.low, config.curriculum.high) if config.curriculum else (0.0, 1.0)
    kept = [(sample, rate) for sample, rate in zip(found, measured, strict=True) if low <= rate <= high]
    if not kept:
        raise UserError(
            f"data.curriculum: none of the {len(found)} questions of {source.data} has a measured pass rate from "
            f"{low} to {high}; widen the band or measure these questions"
        )
    samples = tuple(_named_apart(sample, number, taken) for sample, _ in kept)
    return _Pool(samples, tuple(rate for _, rate in kept))


def _named_apart(sample: Sample, number: int, taken: dict[str, Sample]) -> Sample:
    """Randomness is keyed by the id, so two questions must not share one."""
    if taken.setdefault(sample.id, sample) == sample:
        return sample
    return sample.model_copy(update={"id": f"{number}/{sample.id}"})


Collect = Callable[[Sequence[Sample], int], Awaitable[list[Group]]]
"""(questions, seed) -> their groups: `Rollouts.collect` for one step."""


@dataclass
class Collected:
    """The groups of a step, and what dynamic sampling cost."""

    groups: list[Group]
    refilled: int = 0
    """Groups that were played again with other questions."""
    dropped: list[Group] = field(default_factory=list)
    """Those that they replaced; they count in the metrics of the policy's success."""


async def collect_step(questions: Questions, step: int, count: int, seed: int, collect: Collect) -> Collected:
    """A step's groups, with groups that teach nothing replaced as far as `dynamic_sampling` says."""
    found = Collected(await collect(questions.draw(step, count), seed))
    for refill in range(1, questions.config.dynamic_sampling + 1):
        places = [place for place, group in enumerate(found.groups) if is_degenerate(group)]
        if not places:
            break
        fresh = await collect(questions.draw(step, len(places), refill), seed_of(seed, "refill", refill))
        found.refilled += len(fresh)
        useful = [group for group in fresh if not is_degenerate(group)]
        for place, group in zip(places, useful, strict=False):
            found.dropped.append(found.groups[place])
            found.groups[place] = group
        found.dropped += [group for group in fresh if is_degenerate(group)]
    return found


def is_degenerate(group: Group) -> bool:
    """Whether all rewards that train are equal, so that no advantage comes of the group."""
    totals = [reward.total for reward in group.rewards if reward is not None]
    return not totals or max(totals) - min(totals) < SAME
