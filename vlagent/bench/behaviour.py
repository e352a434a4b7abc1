"""What the episodes of a data set did: calls, faults, tokens, seconds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import Field

from vlagent.bench.counts import is_scored
from vlagent.bench.metrics import mean, quantile
from vlagent.bench.runs import Key
from vlagent.types import EvalRow, Fault, Observation, Record, Trajectory

NO_TOOL = "no tool"


class Rate(Record):
    """How often something worked."""

    total: int
    ok: int

    @property
    def share(self) -> float | None:
        return self.ok / self.total if self.total else None


class Behaviour(Record):
    """What the episodes did, over those that were played (`episodes`)."""

    episodes: int
    stops: dict[str, int]
    turns: float | None
    """A mean per episode, like all floats here unless they say otherwise."""
    calls: float | None
    tool_calls: dict[str, float]
    world_faults: dict[str, int]
    """Calls that a service failed, by tool."""
    services: dict[str, Rate] = Field(default_factory=dict)
    """Each tool's calls that were in order: `ok` unless the service failed; `page` and `summary` behind a text search:
    `ok` where the page could be read, and where the summary could be written."""
    retries: int = 0
    """Of tools, after a service's failure; sum."""
    invalid: float | None
    repairs: dict[str, int]
    """Turns with each repair."""
    format_rate: float | None
    """Share of the scored episodes that are in form."""
    format_scored: int
    prompt_tokens: float | None
    completion_tokens: float | None
    cost_usd: float
    """Sum."""


class Timing(Record):
    """Seconds; the only part that differs between two runs of the same thing."""

    p50_s: float | None
    """Of an episode."""
    p95_s: float | None
    turn_p50_s: float | None = None
    """Of one reply of the model."""
    turn_p95_s: float | None = None
    tools_p50_s: dict[str, float] = Field(default_factory=dict)
    """Of one call, by tool."""
    tools_p95_s: dict[str, float] = Field(default_factory=dict)


@dataclass
class Played:
    """What the summary needs of the episodes of one suite."""

    stops: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    world_faults: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    worked: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    turns: int = 0
    invalid: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    costs: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    turn_s: list[float] = field(default_factory=list)
    tool_s: dict[str, list[float]] = field(default_factory=dict)
    tool_sets: dict[Key, str] = field(default_factory=dict)
    """Episode -> the tools that it called, sorted."""
    prompts: set[str] = field(default_factory=set)

    def add(self, trajectory: Trajectory) -> None:
        """Take in one episode."""
        self.stops[str(trajectory.stop)] += 1
        self.turns += len(trajectory.turns)
        self.prompt_tokens += trajectory.usage.prompt_tokens
        self.completion_tokens += trajectory.usage.completion_tokens
        self.costs.append(trajectory.usage.cost_usd)
        self.seconds.append(trajectory.timings.total_s)
        self.prompts.add(trajectory.system_prompt)
        used = sorted({turn.call.name for turn in trajectory.turns if turn.call})
        self.tool_sets[trajectory.sample_id, trajectory.rollout] = " + ".join(used) or NO_TOOL
        for turn in trajectory.turns:
            self.invalid += turn.error is not None
            self.repairs.update(set(turn.repairs))
            self.turn_s.append(turn.latency_s)
            if turn.call:
                self.calls[turn.call.name] += 1
                self._add_result(turn.call.name, turn.observation)

    def _add_result(self, tool: str, seen: Observation | None) -> None:
        if seen is None or seen.fault is Fault.MODEL:
            return
        failed = seen.fault is Fault.WORLD
        self.retries += seen.retries
        self.tool_s.setdefault(tool, []).append(seen.latency_s)
        self.world_faults.update([tool] if failed else [])
        self._try(tool, not failed)
        if failed or not seen.hits or tool != "text_search":
            return
        for hit in seen.hits:
            if hit.source.url:
                self._try("page", not hit.degraded)
        self._try("summary", not seen.degraded or any(hit.degraded for hit in seen.hits))

    def _try(self, service: str, worked: bool) -> None:
        self.tried[service] += 1
        self.worked[service] += worked


def behaviour_of(played: Played, rows: Iterable[EvalRow]) -> Behaviour:
    """The record of a suite's episodes; `rows` are its scored and unscored ones."""
    episodes = played.stops.total()
    rewards = [row.reward.parts for row in rows if row.reward and is_scored(row)]
    forms = [parts["format"] for parts in rewards if "format" in parts]

    def each(value: float) -> float | None:
        return value / episodes if episodes else None

    return Behaviour(
        episodes=episodes,
        stops=_sorted(played.stops),
        turns=each(played.turns),
        calls=each(played.calls.total()),
        tool_calls={name: number / episodes for name, number in sorted(played.calls.items())},
        world_faults=_sorted(played.world_faults),
        services={name: Rate(total=total, ok=played.worked[name]) for name, total in sorted(played.tried.items())},
        retries=played.retries,
        invalid=each(played.invalid),
        repairs=_sorted(played.repairs),
        format_rate=mean(forms),
        format_scored=len(forms),
        prompt_tokens=each(played.prompt_tokens),
        completion_tokens=each(played.completion_tokens),
        cost_usd=math.fsum(played.costs),
    )


def timing_of(played: Played) -> Timing:
    """Medians and 95th percentiles."""
    tools = sorted(played.tool_s.items())
    return Timing(
        p50_s=quantile(played.seconds, 0.5),
        p95_s=quantile(played.seconds, 0.95),
        turn_p50_s=quantile(played.turn_s, 0.5),
        turn_p95_s=quantile(played.turn_s, 0.95),
        tools_p50_s={name: quantile(seconds, 0.5) or 0.0 for name, seconds in tools},
        tools_p95_s={name: quantile(seconds, 0.95) or 0.0 for name, seconds in tools},
    )


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))
