"""Questions by what they are: kind, category, difficulty, and the data set that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vlagent.bench.evaluate import slices_of
from vlagent.types import Sample

Where = Mapping[str, tuple[str, ...]]
"""Column -> the values that are wanted."""


def only_where(samples: Sequence[Sample], where: Where) -> list[Sample]:
    """Those that have one of the wanted values in each column."""
    return [sample for sample in samples if all(_columns(sample).get(name) in wanted for name, wanted in where.items())]


def unknown_column(samples: Sequence[Sample], where: Where) -> tuple[str, str] | None:
    """The first column that no sample has, and those that there are; None where all are known."""
    known = {"source"}.union(*map(slices_of, samples))
    missing = sorted(set(where) - known)
    return (missing[0], ", ".join(sorted(known))) if missing else None


def _columns(sample: Sample) -> dict[str, str]:
    return {**slices_of(sample), "source": sample.source}
