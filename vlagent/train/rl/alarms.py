"""What a person should be woken for: NaN, entropy collapse, tool calls that go to zero, dead services.

An alarm says what is wrong, never stops a run by itself, and is raised once until the trouble is over.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from vlagent.types import Record

Values = Mapping[str, float]
Name = Literal["not_a_number", "entropy_collapse", "no_tool_calls", "dead_services", "batch_factor", "skipped"]
FACTOR_WARNS_ABOVE = 4.0
"""Batch normalisation multiplies the advantages without bound as fewer groups teach: 12 at p = 1/128 (G = 8)."""


class AlarmConfig(Record):
    """When an alarm is raised. A step is compared with the mean of the first `baseline` steps."""

    baseline: int = Field(default=5, ge=1)
    """Steps that say what is usual."""
    window: int = Field(default=5, ge=1)
    """Last steps whose mean is held against it."""
    entropy_share: float = Field(default=0.1, ge=0, lt=1)
    """Entropy below this share of the usual one is a collapse."""
    calls_share: float = Field(default=0.1, ge=0, lt=1)
    """Tool calls below this share of the usual number are going to zero."""
    fault_share: float = Field(default=0.5, gt=0, le=1)
    """A service is dead that failed in at least this share of a step's episodes."""
    skipped: int = Field(default=5, ge=1)
    """Steps in a row in which no group taught anything."""


class Alarm(Record):
    """One thing that is wrong."""

    name: Name
    step: int
    about: str
    """The metric that it is about."""
    message: str
    """One line for a person."""


def check(config: AlarmConfig, step: int, values: Values, history: Sequence[Values]) -> list[Alarm]:
    """The alarms of one step; `history` holds the values of the steps before it, oldest first."""
    seen = [*history, values]
    found = [alarm for rule in RULES for alarm in rule(config, seen)]
    return [Alarm(name=name, step=step, about=about, message=message) for name, about, message in found]


Found = list[tuple[Name, str, str]]


def _not_a_number(config: AlarmConfig, seen: Sequence[Values]) -> Found:  # noqa: ARG001
    broken = sorted(name for name, value in seen[-1].items() if not math.isfinite(value))
    if not broken:
        return []
    return [("not_a_number", broken[0], f"{', '.join(broken[:5])}: not a finite number")]


def _entropy_collapse(config: AlarmConfig, seen: Sequence[Values]) -> Found:
    fall = _fall("entropy", config, seen, config.entropy_share)
    return [("entropy_collapse", "entropy", f"entropy fell from {fall[0]:.3g} to {fall[1]:.3g}")] if fall else []


def _no_tool_calls(config: AlarmConfig, seen: Sequence[Values]) -> Found:
    """All tools together, then each tool that was in use; where all are gone, one alarm is enough."""
    names = ["calls/all", *sorted({n for v in seen for n in v if n.startswith("calls/")} - set(_DERIVED))]
    for name in names:
        fall = _fall(name, config, seen, config.calls_share)
        if fall:
            what = "tool calls" if name == "calls/all" else f"calls of {name.removeprefix('calls/')}"
            return [("no_tool_calls", name, f"{what} an episode fell from {fall[0]:.2f} to {fall[1]:.2f}")]
    return []


_DERIVED = ("calls/all", "calls/repeated", "calls/redundant")
"""Fewer repeated calls are no trouble."""


def _dead_services(config: AlarmConfig, seen: Sequence[Values]) -> Found:
    """By the service; all of them together only where no single one stands out."""
    shares = {n: v for n, v in seen[-1].items() if n.startswith("world_faults/") and v >= config.fault_share}
    named = {name: share for name, share in shares.items() if name != "world_faults/all"} or shares
    return [
        ("dead_services", name, f"{name.removeprefix('world_faults/')}: services failed in {share:.0%} of the episodes")
        for name, share in sorted(named.items())
    ]


def _batch_factor(config: AlarmConfig, seen: Sequence[Values]) -> Found:  # noqa: ARG001
    factor = seen[-1].get("bn/factor", 0.0)
    if not factor > FACTOR_WARNS_ABOVE:
        return []
    share = seen[-1].get("bn/p", 0.0)
    why = f"batch normalisation multiplies the advantages by {factor:.1f}: only {share:.0%} of the groups teach"
    return [("batch_factor", "bn/factor", why)]


def _skipped(config: AlarmConfig, seen: Sequence[Values]) -> Found:
    last = [v for v in seen if "updates/taken" in v][-config.skipped :]
    if len(last) < config.skipped or any(v["updates/taken"] > 0 for v in last):
        return []
    return [
        ("skipped", "updates/skipped", f"{config.skipped} steps in a row taught nothing: every group is degenerate")
    ]


def _fall(name: str, config: AlarmConfig, seen: Sequence[Values], share: float) -> tuple[float, float] | None:
    """(usual, now) where the mean of the last steps is below a share of the mean of the first; a missing call is 0."""
    measured = [v for v in seen if name in v or (name.startswith("calls/") and "calls/all" in v)]
    if len(measured) < config.baseline + config.window:
        return None
    series = [v.get(name, 0.0) for v in measured]
    usual = math.fsum(series[: config.baseline]) / config.baseline
    now = math.fsum(series[-config.window :]) / config.window
    return (usual, now) if usual > 0 and now < share * usual else None


Rule = Callable[[AlarmConfig, Sequence[Values]], Found]
RULES: tuple[Rule, ...] = (
    _not_a_number,
    _entropy_collapse,
    _no_tool_calls,
    _dead_services,
    _batch_factor,
    _skipped,
)
