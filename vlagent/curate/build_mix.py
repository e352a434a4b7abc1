"""Shares of data sets in a set of questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from vlagent.errors import UserError
from vlagent.randomness import rng_of
from vlagent.types import Sample


def mix(samples: Sequence[Sample], shares: Mapping[str, float], size: int | None, seed: int) -> list[Sample]:
    """Questions drawn so that each data set has its share, in the order in which they came.

    A name stands for every data set that begins with it. Without shares all are taken, or `size` of them. A set that
    no share names is left out. Raises `UserError` where a share names nothing or there are too few questions.
    """
    if not shares:
        return _drawn(list(samples), size, seed, "all")
    pools = {name: [each for each in samples if _names(name, each.source, shares)] for name in shares}
    if empty := next((name for name, pool in pools.items() if not pool), None):
        known = ", ".join(dict.fromkeys(sample.source for sample in samples))
        raise UserError(f"--mix {empty}: no question of that data set is left; there are {known}")
    exact = {name: Fraction(str(share)) for name, share in shares.items()}
    total = sum(exact.values())
    most = min(int(len(pools[name]) * total / share) for name, share in exact.items())
    if size is not None and size > most:
        short = min(exact, key=lambda name: len(pools[name]) / exact[name])
        raise UserError(f"--size {size}: {short} has {len(pools[short])} questions left; with this mix at most {most}")
    counts = _counts(exact, size or most)
    if none := next((name for name, count in counts.items() if not count), None):
        raise UserError(f"--mix {none}={shares[none]:g}: that is not one of {size or most} questions; raise it")
    taken = {each.id for name, pool in pools.items() for each in _drawn(pool, counts[name], seed, name)}
    return [sample for sample in samples if sample.id in taken]


def _names(name: str, source: str, shares: Mapping[str, float]) -> bool:
    """The longest name that a data set begins with is its own."""
    return max((each for each in shares if source.startswith(each)), key=len, default=None) == name


def _counts(shares: Mapping[str, Fraction], size: int) -> dict[str, int]:
    """Whole numbers that add up to `size`: the largest remainders get one more. Fractions, since 3 * 0.3 / 0.3 < 3."""
    total = sum(shares.values())
    exact = {name: size * share / total for name, share in shares.items()}
    counts = {name: int(value) for name, value in exact.items()}
    by_rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in by_rest[: size - sum(counts.values())]:
        counts[name] += 1
    return counts


def _drawn(pool: list[Sample], count: int | None, seed: int, name: str) -> list[Sample]:
    if count is None:
        return pool
    if count > len(pool):
        raise UserError(f"--size {count}: there are {len(pool)} questions")
    places = sorted(rng_of(seed, "mix", name).sample(range(len(pool)), count))
    return [pool[place] for place in places]
