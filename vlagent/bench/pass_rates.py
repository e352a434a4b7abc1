"""How often a policy gets each question right, measured before: for curricula, and for sets of a chosen difficulty."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from vlagent.bench.counts import is_scored
from vlagent.bench.runs import read_rows
from vlagent.errors import UserError
from vlagent.files import iter_jsonl
from vlagent.types import EvalRow, Outcome


def pass_rates(path: Path) -> dict[str, float]:
    """Sample id -> share of its scored episodes that were right."""
    if path.is_dir():
        counts = right_by_question(read_rows(path).values())
        rates = {name: sum(each) / len(each) for name, each in counts.items()}
    else:
        rates = {}
        for number, line in enumerate(iter_jsonl(path), 1):
            try:
                rates[str(line["sample_id"])] = _share(line["pass_rate"])
            except (KeyError, TypeError, ValueError):
                raise UserError(f"{path}:{number}: sample_id and pass_rate (0 to 1) are expected") from None
    if not rates:
        raise UserError(f"{path}: holds no pass rate; measure some with vlagent eval --k 8")
    return rates


def right_by_question(rows: Iterable[EvalRow]) -> dict[str, list[bool]]:
    """Sample id -> whether each of its scored episodes is right; failed and unscored ones do not count."""
    found: dict[str, list[bool]] = {}
    for row in rows:
        if is_scored(row):
            found.setdefault(row.sample_id, []).append(row.outcome is Outcome.RIGHT)
    return found


def _share(value: float) -> float:
    if not 0 <= float(value) <= 1:
        raise ValueError(value)
    return float(value)
