"""What a step of reinforcement learning is watched by: flat names, one number each.

    reward/mean  reward/<part>  success/all  success/<kind>      the groups' episodes, and what they were worth
    calls/all  calls/<tool>  calls/repeated  calls/redundant     a mean per episode, like turns/ and length/
    calls_by_kind/<kind>/<tool>                                  the cells of the heat map of tool use
    stops/<reason>  world_faults/<service>  left_out/<reason>    shares of the episodes; counts of what does not train
    bn/p  bn/factor  ratio/  clip/  kl  entropy  mismatch/       from the update
    time/step_s  time/<part>_s  speed/  memory/                  what it cost

Nothing is logged that was not measured: a name is absent rather than 0. N = episodes of a step.
"""

from __future__ import annotations

import json
import resource
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from vlagent.types import Call, EvalRow, Fault, Group, Outcome, Reward, Sample, StopReason, Trajectory, Turn

WORST_UP = ("max",)
WORST_DOWN = ("min",)
"""Last words of the statistics of which a step has its extreme; of all others it has the mean."""


Episode = tuple[Sample, Trajectory, EvalRow]


class Normalised(Protocol):
    """What is read of the advantages of one minibatch."""

    @property
    def p(self) -> float: ...
    @property
    def factor(self) -> float | None: ...


@dataclass(frozen=True)
class Update:
    """One optimizer minibatch."""

    advantages: Normalised
    stats: Mapping[str, float] = field(default_factory=dict)
    """Of the objective, over the whole minibatch."""
    sequences: int = 1
    skipped: bool = False
    """No group taught anything (p = 0), so no step was taken."""


SUMMED = ("model", "tools", "reward")
"""Parts of the rollout whose seconds are summed over episodes that overlap, so that they exceed the step's."""


@dataclass(frozen=True)
class Costs:
    """Seconds of wall time by part of the step, and what they gave."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """step, rollout, rows, update; and `SUMMED`."""
    sampled_tokens: int = 0
    trained_tokens: int = 0


def step_metrics(
    groups: Sequence[Group],
    left_out: Mapping[str, int],
    updates: Sequence[Update],
    costs: Costs,
    more: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Every number of one step; `more` (learning rate, gradient norm, ...) is taken as it is."""
    return {
        **episode_metrics(groups),
        **{f"left_out/{reason}": float(count) for reason, count in left_out.items()},
        **update_metrics(updates),
        **cost_metrics(costs, sum(len(group.trajectories) for group in groups)),
        **(more or {}),
    }


def episode_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Rewards, success by kind, calls, turns, lengths and endings."""
    episodes = list(_episodes(groups))
    if not episodes:
        return {}
    played = [trajectory for _, trajectory, _ in episodes]
    count = len(played)
    return {
        "episodes": float(count),
        **_rewards([row.reward for _, _, row in episodes if row.reward is not None]),
        **_successes(episodes),
        **_calls(episodes),
        "turns/mean": sum(len(t.turns) for t in played) / count,
        "turns/invalid": sum(turn.error is not None for t in played for turn in t.turns) / count,
        **_lengths(played),
        **_shares("stops", Counter(str(t.stop) for t in played), count),
        **_world_faults(episodes),
    }


def _episodes(groups: Sequence[Group]) -> Iterator[Episode]:
    for group in groups:
        for trajectory, row in zip(group.trajectories, group.rows, strict=True):
            yield group.sample, trajectory, row


def _rewards(rewards: Sequence[Reward]) -> dict[str, float]:
    """Means over the episodes that were scored."""
    if not rewards:
        return {"reward/scored": 0.0}
    values: dict[str, list[float]] = {}
    for reward in rewards:
        values.setdefault("mean", []).append(reward.total)
        for part, value in reward.parts.items():
            values.setdefault(part, []).append(value)
    means = {f"reward/{name}": sum(each) / len(each) for name, each in values.items()}
    return {"reward/scored": float(len(rewards)), **means}


def _successes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Share of the scored episodes whose answer is right, in all and by kind."""
    found: dict[str, list[bool]] = {}
    for sample, _, row in episodes:
        if row.outcome in (Outcome.RIGHT, Outcome.WRONG):
            found.setdefault("all", []).append(row.outcome is Outcome.RIGHT)
            found.setdefault(kind_of(sample), []).append(row.outcome is Outcome.RIGHT)
    return {f"success/{name}": sum(each) / len(each) for name, each in found.items()}


def kind_of(sample: Sample) -> str:
    """The kind that a row states, else its data set."""
    kind = sample.extra.get("kind")
    return kind if isinstance(kind, str) and kind else sample.source


def _calls(episodes: Sequence[Episode]) -> dict[str, float]:
    tools: Counter[str] = Counter()
    cells: Counter[tuple[str, str]] = Counter()
    kinds: Counter[str] = Counter()
    repeated = redundant = 0
    for sample, trajectory, _ in episodes:
        kind = kind_of(sample)
        kinds[kind] += 1
        names = [turn.call.name for turn in trajectory.turns if turn.call]
        tools.update(names)
        cells.update((kind, name) for name in names)
        repeated += repeated_calls(trajectory)
        redundant += redundant_calls(sample, trajectory)
    count = len(episodes)
    means = {f"calls/{name}": tools[name] / count for name in sorted(tools)}
    by_kind = {f"calls_by_kind/{kind}/{name}": cells[kind, name] / kinds[kind] for kind, name in sorted(cells)}
    totals = {"calls/all": sum(tools.values()), "calls/repeated": repeated, "calls/redundant": redundant}
    return {**{name: value / count for name, value in totals.items()}, **means, **by_kind}


def repeated_calls(trajectory: Trajectory) -> int:
    """Calls that were made before in the same episode, letters and spacing of their words aside."""
    seen = [_canonical(turn.call) for turn in trajectory.turns if turn.call]
    return len(seen) - len(set(seen))


def redundant_calls(sample: Sample, trajectory: Trajectory) -> int:
    """Calls beyond the fewest that find the answer, where the row states them (`min_calls`); else repeated calls."""
    fewest = sample.extra.get("min_calls")
    if not isinstance(fewest, int):
        return repeated_calls(trajectory)
    return max(0, sum(turn.call is not None for turn in trajectory.turns) - fewest)


def _canonical(call: Call) -> str:
    def plain(value: Any) -> Any:
        return " ".join(value.lower().split()) if isinstance(value, str) else value

    return json.dumps([call.name, {name: plain(value) for name, value in call.arguments.items()}], sort_keys=True)


def _lengths(played: Sequence[Trajectory]) -> dict[str, float]:
    """Tokens that the policy wrote in an episode."""
    own = [sum(len(turn.tokens.ids) for turn in t.turns if turn.tokens) or t.usage.completion_tokens for t in played]
    return {"length/mean": sum(own) / len(own), "length/max": float(max(own))}


def _shares(prefix: str, counts: Counter[str], total: int) -> dict[str, float]:
    return {f"{prefix}/{name}": counts[name] / total for name in sorted(counts)}


def _world_faults(episodes: Sequence[Episode]) -> dict[str, float]:
    """Share of the episodes that a service failed, in all and by service: a tool's, the model, the judge."""
    by_service: Counter[str] = Counter()
    failed = [_failed_services(trajectory, row) for _, trajectory, row in episodes]
    for names in failed:
        by_service.update(names)
    return {
        "world_faults/all": sum(map(bool, failed)) / len(episodes),
        **_shares("world_faults", by_service, len(episodes)),
    }


def _failed_services(trajectory: Trajectory, row: EvalRow) -> set[str]:
    names = {turn.call.name for turn in trajectory.turns if turn.call and _failed(turn)}
    if trajectory.stop is StopReason.MODEL_FAILURE:
        names.add("model")
    if trajectory.stop is StopReason.ANSWERED and row.outcome is Outcome.FAILED:
        names.add("judge")
    return names or ({"lookup"} if trajectory.degraded else set())


def _failed(turn: Turn) -> bool:
    seen = turn.observation
    return seen is not None and (seen.fault is Fault.WORLD or seen.degraded)


def update_metrics(updates: Sequence[Update]) -> dict[str, float]:
    """Of the minibatches of a step: means weighted by their sequences, extremes where a name asks for them."""
    if not updates:
        return {}
    values: dict[str, list[tuple[float, int]]] = {}
    for update in updates:
        values.setdefault("bn/p", []).append((update.advantages.p, update.sequences))
        if update.advantages.factor is not None:
            values.setdefault("bn/factor", []).append((update.advantages.factor, update.sequences))
        for name, value in update.stats.items():
            values.setdefault(name, []).append((float(value), update.sequences))
    joined = {name: _joined(name, each) for name, each in values.items()}
    taken = sum(not update.skipped for update in updates)
    return {**joined, "updates/taken": float(taken), "updates/skipped": float(len(updates) - taken)}


def _joined(name: str, values: Sequence[tuple[float, int]]) -> float:
    last = name.replace("/", "_").split("_")[-1]
    if last in WORST_UP:
        return max(value for value, _ in values)
    if last in WORST_DOWN:
        return min(value for value, _ in values)
    weight = sum(sequences for _, sequences in values)
    return sum(value * sequences for value, sequences in values) / weight if weight else 0.0


def cost_metrics(costs: Costs, episodes: int) -> dict[str, float]:
    """Where the time went, and rates over the parts that made them."""
    values = {f"time/{part}_s": float(seconds) for part, seconds in costs.seconds.items()}
    rollout, update = costs.seconds.get("rollout", 0.0), costs.seconds.get("update", 0.0)
    if rollout > 0:
        values["speed/sampled_tokens_per_s"] = costs.sampled_tokens / rollout
        values["speed/episodes_per_s"] = episodes / rollout
    if update > 0:
        values["speed/trained_tokens_per_s"] = costs.trained_tokens / update
    return values | memory()


def memory() -> dict[str, float]:
    """The highest memory of this process so far, in MB; that of its GPU too where torch uses one."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    values = {"memory/peak_mb": peak / (2**20 if sys.platform == "darwin" else 2**10)}
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        values["memory/gpu_peak_mb"] = torch.cuda.max_memory_allocated() / 2**20
    return values
