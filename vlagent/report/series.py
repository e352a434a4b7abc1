"""Numbers over steps as charts: which belong together, in what order, and what a chart's script is told.

A chart is plain data, drawn by templates/charts.js: lines of (x, y) points, bands of (x, low, high), marked steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

Point = tuple[float, float]
Table = Mapping[str, Sequence[Point]]
"""Name of a number -> its (step, value) points."""


@dataclass(frozen=True)
class Line:
    """One curve."""

    label: str
    points: tuple[Point, ...]
    band: tuple[tuple[float, float, float], ...] = ()
    """(x, low, high)."""
    thin: bool = False
    """Drawn faintly: one of many that others sum up."""


@dataclass(frozen=True)
class Chart:
    """Curves that share an axis."""

    title: str
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...] = ()
    """Steps at which something happened, and what."""
    x_name: str = "step"

    def plain(self) -> dict[str, Any]:
        """What the script is told; a value that is no number is null and leaves a gap."""
        return {
            "title": self.title,
            "x": self.x_name,
            "marks": [list(mark) for mark in self.marks],
            "lines": [
                {
                    "label": line.label,
                    "thin": line.thin,
                    "points": [[x, _finite(y)] for x, y in line.points],
                    "band": [[x, low, high] for x, low, high in line.band if math.isfinite(low + high)],
                }
                for line in self.lines
            ],
        }


def numbered(sections: Mapping[str, Sequence[Chart]]) -> list[tuple[str, list[tuple[int, Chart]]]]:
    """The charts of each section with their places in `plain`."""
    found, number = [], 0
    for name, charts in sections.items():
        found.append((name, list(enumerate(charts, number))))
        number += len(charts)
    return found


def plain(sections: Mapping[str, Sequence[Chart]]) -> list[dict[str, Any]]:
    """All charts, one after another, as the script is told them."""
    return [chart.plain() for charts in sections.values() for chart in charts]


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


@dataclass(frozen=True)
class Wanted:
    """A chart of the layout: its title and the names that it shows; `*` stands for anything."""

    title: str
    names: tuple[str, ...]
    but: tuple[str, ...] = ()


EPISODES_S = ("time/model_s", "time/tools_s", "time/reward_s")
"""Of episodes that overlap: their sums are many times the step's."""
LAYOUT: dict[str, tuple[Wanted, ...]] = {
    "Learning": (
        Wanted("Success", ("success/all", "validation/success", "success")),
        Wanted("Success by kind", ("success/*",), ("success/all",)),
        Wanted("Validation by kind", ("validation/success/*", "validation/*"), ("validation/success",)),
        Wanted("Reward", ("reward/mean", "reward/*"), ("reward/scored",)),
        Wanted("Loss", ("loss", "validation_loss", "nll")),
    ),
    "Behaviour": (
        Wanted("Tool calls an episode", ("calls/all", "calls/*"), ("calls/repeated", "calls/redundant")),
        Wanted("Calls that bring nothing", ("calls/redundant", "calls/repeated")),
        Wanted("Turns an episode", ("turns/mean", "turns/invalid")),
        Wanted("Tokens an episode", ("length/mean", "length/max")),
        Wanted("How episodes end (share)", ("stops/*",)),
        Wanted("Spoilt by a service (share)", ("world_faults/*",)),
        Wanted("Left out of training", ("left_out/*",)),
    ),
    "Algorithm": (
        Wanted("Share of groups that teach", ("bn/p",)),
        Wanted("Factor of batch normalisation", ("bn/factor",)),
        Wanted("Importance ratio", ("ratio/q01", "ratio/q50", "ratio/q99", "ratio/min", "ratio/max")),
        Wanted("Ratio identically 1 (share)", ("ratio/identical", "ratio/one", "ratio/is_one", "ratio/*one*")),
        Wanted("Clipped (share)", ("clip/*",)),
        Wanted("KL to the reference", ("kl", "kl/*")),
        Wanted("Entropy", ("entropy", "entropy/*")),
        Wanted("Sampler against trainer, |Δ log p|", ("mismatch/*",)),
        Wanted("Gradient norm", ("grad_norm", "grad_norm/*")),
        Wanted("Learning rate", ("lr", "lr/*")),
        Wanted("Minibatches", ("updates/*",)),
    ),
    "Cost": (
        Wanted("Seconds a step", ("time/*",), EPISODES_S),
        Wanted("Seconds a step, summed over its episodes", EPISODES_S),
        Wanted("Tokens a second", ("speed/*_tokens_per_s", "tokens_per_s")),
        Wanted("Episodes a second", ("speed/episodes_per_s", "rows_per_s")),
        Wanted("Memory, MB", ("memory/*",)),
    ),
}
"""Sections of the page, and their charts in order; a number goes to the first chart that wants it."""
HIDDEN = ("step", "episodes", "calls_by_kind/*", "reward/scored", "validation/scored", "success_scored", "epoch")
"""Shown elsewhere, or no measurement."""


def read_table(lines: Iterable[Mapping[str, Any]]) -> dict[str, list[Point]]:
    """The points of every number in the lines of a metrics file."""
    table: dict[str, list[Point]] = {}
    for line in lines:
        for name, value in line.items():
            if name != "step" and isinstance(value, int | float) and not isinstance(value, bool):
                table.setdefault(name, []).append((float(line["step"]), float(value)))
    return table


@dataclass
class _Taken:
    table: Table
    left: dict[str, None] = field(default_factory=dict)

    def take(self, wanted: Wanted) -> list[str]:
        """Names in the order of the patterns that want them; nobody gets them again."""
        found: list[str] = []
        for pattern in wanted.names:
            names = [name for name in self.left if fnmatchcase(name, pattern) and name not in wanted.but]
            found += [name for name in sorted(names) if name not in found]
        for name in found:
            del self.left[name]
        return found


def charts_of(table: Table, marks: Mapping[str, Sequence[tuple[float, str]]] | None = None) -> dict[str, list[Chart]]:
    """Sections with their charts; what the layout does not know stands under `Other`, by first word of its name.

    `marks` are marked steps by the name of the number that they are about.
    """
    taken = _Taken(table, {name: None for name in table if not any(fnmatchcase(name, p) for p in HIDDEN)})
    sections: dict[str, list[Chart]] = {}
    for section, charts in LAYOUT.items():
        for wanted in charts:
            names = taken.take(wanted)
            if names:
                sections.setdefault(section, []).append(_chart(wanted.title, names, table, marks or {}))
    others: dict[str, list[str]] = {}
    for name in taken.left:
        others.setdefault(name.split("/")[0], []).append(name)
    if others:
        sections["Other"] = [
            _chart(title, sorted(names), table, marks or {}) for title, names in sorted(others.items())
        ]
    return sections


def _chart(title: str, names: Sequence[str], table: Table, marks: Mapping[str, Sequence[tuple[float, str]]]) -> Chart:
    lines = tuple(Line(name, tuple(table[name])) for name in names)
    return Chart(title, lines, tuple(mark for name in names for mark in marks.get(name, ())))


def window(values: Sequence[float], last: bool) -> float:
    """Mean of the first or the last few values: a fifth of them, at most five."""
    count = max(1, min(5, len(values) // 5))
    used = values[-count:] if last else values[:count]
    return math.fsum(used) / len(used)
