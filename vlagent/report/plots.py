"""Small plots as inline SVG: bars with intervals, stacked bars. No script; the colours are those of the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from vlagent.bench.summary import Summary

LABEL = 150
"""Pixels for the names on the left."""
LENGTH = 420
BAR = 15
GAP = 6
GROUP = 12
SERIES = ("#2f5d8a", "#c46b2d", "#2d7a46", "#7a6aa8", "#b23a3a", "#5f8f99", "#8a6d3b", "#6a6f78")


@dataclass(frozen=True)
class Bar:
    """One line of a plot: its parts lie end to end."""

    name: str
    parts: tuple[tuple[str, float], ...]
    """(series, value)."""
    interval: tuple[float, float] | None = None
    said: str = ""
    """What stands behind it."""


@dataclass(frozen=True)
class Group:
    """Bars that belong together."""

    name: str
    bars: tuple[Bar, ...]


def tool_use(named: Mapping[str, Summary]) -> Markup | None:
    """Mean calls of each tool in an episode, by data set and run (as figures of the paper); None without any call."""
    groups = []
    for suite in _suites(named):
        bars = []
        for name, summary in named.items():
            if suite in summary.suites:
                calls = summary.suites[suite].behaviour.tool_calls
                total = sum(calls.values())
                bars.append(Bar(name if len(named) > 1 else "", tuple(calls.items()), said=f"{total:.2f}"))
        groups.append(Group(suite, tuple(bars)))
    if not any(bar.parts for group in groups for bar in group.bars):
        return None
    return bars_plot("Tool calls in an episode, by data set", groups, "calls")


def scores(named: Mapping[str, Summary]) -> Markup | None:
    """Scores with their 95 % intervals, by data set and run."""
    groups = []
    for suite in _suites(named):
        bars = []
        for name, summary in named.items():
            counts = summary.suites[suite].counts if suite in summary.suites else None
            if counts is not None and counts.accuracy is not None:
                parts = ((name, counts.accuracy),)
                said = f"{100 * counts.accuracy:.1f} % of {counts.scored}"
                bars.append(Bar(name if len(named) > 1 else "", parts, counts.interval, said))
        groups.append(Group(suite, tuple(bars)))
    if not any(group.bars for group in groups):
        return None
    return bars_plot("Share that is right, with 95 % intervals", groups, "share", top=1.0, legend=len(named) > 1)


def _suites(named: Mapping[str, Summary]) -> list[str]:
    return list(dict.fromkeys(suite for summary in named.values() for suite in summary.suites))


def bars_plot(
    title: str, groups: Sequence[Group], unit: str, *, top: float | None = None, legend: bool = True
) -> Markup:
    """Horizontal bars, a group a data set. All text is escaped."""
    series = list(dict.fromkeys(name for group in groups for bar in group.bars for name, _ in bar.parts))
    colour = {name: SERIES[number % len(SERIES)] for number, name in enumerate(series)}
    largest = top or _round_up(max((sum(value for _, value in bar.parts) for g in groups for bar in g.bars), default=1))
    drawn, y = [], 20.0
    for group in groups:
        drawn.append(_text(0, y + BAR - 3, group.name, "name"))
        for bar in group.bars:
            drawn += _bar(bar, y, largest, colour)
            y += BAR + GAP
        y += GROUP if group.bars else BAR + GROUP
    drawn.insert(0, _axis(largest, y, unit, percent=top == 1.0))
    width, height = 2 * LABEL + LENGTH + 110, y + 26
    keys = _legend(series, colour) if legend and series else Markup("")
    return Markup(
        '<figure class="plot"><figcaption>{}</figcaption>'
        '<svg viewBox="0 0 {:.0f} {:.0f}" style="max-width:{:.0f}px" role="img" aria-label="{}">{}</svg>{}</figure>'
    ).format(title, width, height, width, title, Markup("").join(drawn), keys)


def _bar(bar: Bar, y: float, largest: float, colour: Mapping[str, str]) -> list[Markup]:
    drawn = [_text(LABEL, y + BAR - 3, bar.name, "run")] if bar.name else []
    x = 2.0 * LABEL
    for name, value in bar.parts:
        length = LENGTH * value / largest
        rect = '<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{}" fill="{}"><title>{}: {:.3g}</title></rect>'
        drawn.append(Markup(rect).format(x, y, max(length, 0.0), BAR, colour[name], name, value))
        x += length
    if bar.interval:
        low, high = (2 * LABEL + LENGTH * value / largest for value in bar.interval)
        x = max(x, high)
        path = '<path class="whisker" d="M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v8M{1:.1f} {3:.1f}v8"/>'
        drawn.append(Markup(path).format(low, high, y + BAR / 2, y + BAR / 2 - 4))
    return [*drawn, _text(x + 6, y + BAR - 3, bar.said, "said")]


def _axis(largest: float, y: float, unit: str, *, percent: bool) -> Markup:
    marks = []
    for step in range(5):
        value = largest * step / 4
        x = 2 * LABEL + LENGTH * step / 4
        said = f"{100 * value:.0f} %" if percent else f"{value:g}"
        marks.append(Markup('<path class="grid" d="M{0:.1f} 14V{1:.1f}"/>').format(x, y))
        marks.append(_text(x, y + 16, said if step < 4 or percent else f"{said} {unit}", "tick"))
    return Markup("").join(marks)


def _legend(series: Sequence[str], colour: Mapping[str, str]) -> Markup:
    keys = [Markup('<li><span style="background:{}"></span>{}</li>').format(colour[name], name) for name in series]
    return Markup('<ul class="keys">{}</ul>').format(Markup("").join(keys))


def _text(x: float, y: float, said: str, kind: str) -> Markup:
    short = said if len(said) <= 26 else said[:25] + "…"
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}">{}<title>{}</title></text>').format(
        x, y, kind, escape(short), said
    )


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 8 times a power of ten, so that quarters are round."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((step * power for step in (1, 2, 4, 8) if step * power >= value), 10 * power)
