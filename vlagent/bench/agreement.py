"""How far judges agree: Cohen's kappa of two, Krippendorff's alpha of any number with gaps.

Own code: the known Python package for alpha is under the GPL. Both are nominal (yes or no), tested against the
hand-computed values of the papers' own tables.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations

from vlagent.rewards.opinions import Opinion
from vlagent.types import Record


class PairAgreement(Record):
    """Two judges on the answers that both gave a verdict on."""

    first: str
    second: str
    answers: int
    both_yes: int
    only_first_yes: int
    only_second_yes: int
    both_no: int
    share: float | None
    """Of the answers on which they say the same."""
    kappa: float | None
    """Cohen's; None where one of them always says the same and chance explains everything."""


class Agreement(Record):
    """All judges of a run."""

    answers: int
    """Distinct answers that any judge marked."""
    judges: dict[str, int]
    """Judge -> answers that it gave a verdict on."""
    alpha: float | None
    """Krippendorff's, nominal, over answers with at least two verdicts."""
    pairs: tuple[PairAgreement, ...]


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """(observed - chance agreement) / (1 - chance agreement) of two raters (Cohen, 1960).

    None of nothing, and where chance agreement is 1.
    """
    if not pairs:
        return None
    count = len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / count
    chance = math.fsum(first[value] * second[value] for value in first) / count**2
    return None if math.isclose(chance, 1.0) else (observed - chance) / (1 - chance)


def krippendorff_alpha(units: Iterable[Sequence[Hashable | None]]) -> float | None:
    """1 - observed / expected disagreement, nominal (Krippendorff, Content Analysis, 2004); None is a missing value.

    Units with fewer than two values do not count. None where no value can disagree with another.
    """
    weights: dict[tuple[Hashable, Hashable], float] = {}
    for unit in units:
        values = [value for value in unit if value is not None]
        for i, a in enumerate(values):
            for j, b in enumerate(values):
                if i != j:
                    weights[a, b] = weights.get((a, b), 0.0) + 1 / (len(values) - 1)
    totals: dict[Hashable, float] = {}
    for (a, _), weight in weights.items():
        totals[a] = totals.get(a, 0.0) + weight
    count = math.fsum(totals.values())
    expected = count**2 - math.fsum(total**2 for total in totals.values())
    if count < 2 or expected == 0:
        return None
    observed = math.fsum(weight for (a, b), weight in weights.items() if a != b)
    return 1 - (count - 1) * observed / expected


def agreement(opinions: Iterable[Opinion]) -> Agreement | None:
    """The agreement of the judges; None where fewer than two gave verdicts.

    Of several opinions of one judge on one answer the last counts; those without a verdict do not.
    """
    said: dict[tuple[str, str], dict[str, bool]] = {}
    judges: dict[str, None] = {}
    for opinion in opinions:
        if opinion.verdict.right is not None:
            judges[opinion.judge] = None
            said.setdefault((opinion.sample_id, opinion.answer), {})[opinion.judge] = opinion.verdict.right
    if len(judges) < 2:
        return None
    units = list(said.values())
    return Agreement(
        answers=len(units),
        judges={name: sum(name in unit for unit in units) for name in judges},
        alpha=krippendorff_alpha([[unit.get(name) for name in judges] for unit in units]),
        pairs=tuple(_pair(first, second, units) for first, second in combinations(judges, 2)),
    )


def _pair(first: str, second: str, units: Sequence[Mapping[str, bool]]) -> PairAgreement:
    pairs = [(unit[first], unit[second]) for unit in units if first in unit and second in unit]
    cells = Counter(pairs)
    return PairAgreement(
        first=first,
        second=second,
        answers=len(pairs),
        both_yes=cells[True, True],
        only_first_yes=cells[True, False],
        only_second_yes=cells[False, True],
        both_no=cells[False, False],
        share=sum(a == b for a, b in pairs) / len(pairs) if pairs else None,
        kappa=cohen_kappa(pairs),
    )
