"""Which episodes are fit to learn from: checked by rules, then by a second model, each rejection with its reasons.

The output is a run folder of the kept ones, as fine-tuning reads it, and `rejected/`, one of the others, with
`findings.jsonl`. The rules cost nothing and are run anew each time; a reviewer's answers are paid for once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field

from vlagent.agent.config import AgentConfig
from vlagent.agent.parse import parse
from vlagent.agent.store import read_trajectories
from vlagent.bench.evaluate import row_of
from vlagent.bench.runs import read_rows, read_samples, write_run
from vlagent.curate.budget import CALLS
from vlagent.curate.flaws import Finding
from vlagent.curate.flaws_leak import leaks
from vlagent.curate.flaws_steps import incoherent, ungrounded_queries
from vlagent.curate.flaws_support import lucky
from vlagent.curate.flaws_twins import Twins
from vlagent.curate.verify_model import Reviewer
from vlagent.errors import ServiceError, UserError
from vlagent.files import only_writer, read_json, write_json, write_records
from vlagent.render.dialects import Dialect, ImageKind, get_dialect, new_kind
from vlagent.rewards.format import format_reward
from vlagent.tools.base import Tool
from vlagent.tools.registry import make_tools, tool_names
from vlagent.types import EvalRow, Outcome, Record, Sample, StopReason, Trajectory, Turn

REJECTED = "rejected"
FINDINGS = "findings.jsonl"
AT_ONCE = 16
"""Reviews at one time."""


class Checks(Record):
    """How strict the rules are."""

    strict_leaks: bool = False
    """The model had been told the answer."""
    allow_direct: bool = False
    """Accept answers without any call where the question can be answered by looking."""


class Rejection(Record):
    """One episode that is not kept."""

    sample_id: str
    rollout: int
    findings: tuple[Finding, ...]


class Verified(Record):
    """What came of it; `summary.json` of the output."""

    version: int = 1
    episodes: int
    kept: int
    rejected: int
    unreviewed: int = 0
    """The reviewer could not be reached: neither kept nor rejected until the command is run again."""
    kinds: dict[str, int] = Field(default_factory=dict)
    """Finding -> episodes that have one of it."""
    last_failure: str = ""


@dataclass
class Work:
    """The episodes on their way through the checks."""

    pairs: list[tuple[Sample, Trajectory]]
    rows: dict[tuple[str, int], EvalRow]
    findings: dict[tuple[str, int], list[Finding]] = field(default_factory=dict)
    unreviewed: set[tuple[str, int]] = field(default_factory=set)
    last_failure: str = ""

    @property
    def to_review(self) -> list[tuple[Sample, Trajectory]]:
        """The episodes in which the rules find nothing."""
        return [(sample, each) for sample, each in self.pairs if not self.findings[sample.id, each.rollout]]

    def episodes(self, keys: Sequence[tuple[str, int]]) -> list[tuple[Sample, Trajectory, EvalRow | None]]:
        """Those of these keys, with their scores."""
        wanted = set(keys)
        keyed = (((sample.id, each.rollout), sample, each) for sample, each in self.pairs)
        return [(sample, each, self.rows[key]) for key, sample, each in keyed if key in wanted]


def findings_of(sample: Sample, trajectory: Trajectory, row: EvalRow | None, checks: Checks) -> list[Finding]:
    """What the rules find in one episode by itself; with a broken form or a wrong answer, only that."""
    if row is not None and row.outcome is Outcome.FAILED:
        return [Finding(kind="service_failed", why=row.why or "a service failed, so it was not played to its end")]
    form = _form(sample, trajectory)
    if form:
        return form
    if row is None or row.outcome is not Outcome.RIGHT or trajectory.stop is not StopReason.ANSWERED:
        why = row.why if row is not None else "it was not scored"
        return [Finding(kind="wrong_answer", why=why or "it is not right")]
    if trajectory.degraded:
        return [Finding(kind="service_failed", why="a tool's service failed on the way")]
    found = leaks(sample, trajectory, strict=checks.strict_leaks)
    found += ungrounded_queries(sample, trajectory)
    found += incoherent(sample, trajectory)
    return found + lucky(sample, trajectory, allow_direct=checks.allow_direct)


def _form(sample: Sample, trajectory: Trajectory) -> list[Finding]:
    """By what the parser said when the turn was written, and by reading its text again: records come from anywhere."""
    value, why = format_reward(trajectory)
    if not value:
        return [Finding(kind="wrong_format", why=why)]
    dialect = get_dialect(trajectory.dialect)
    if dialect.native or trajectory.workflow != "agent":
        return []
    kinds: list[ImageKind] = ["input"] * len(sample.images)
    for number, turn in enumerate(trajectory.turns, 1):
        if turn.edited_by is None and (problem := _reads_otherwise(turn, dialect, kinds)):
            return [Finding(kind="wrong_format", turn=number, why=problem)]
        kinds += [new_kind(turn.call)] * _shown(turn)
    return []


def _shown(turn: Turn) -> int:
    return len(turn.observation.images) if turn.observation is not None else 0


def _reads_otherwise(turn: Turn, dialect: Dialect, kinds: Sequence[ImageKind]) -> str:
    read = parse(turn.text, turn.finish_reason, dialect, _tools(turn.call.name if turn.call else ""), kinds)
    if read.error is not None or not read.format_ok:
        return f"its text is out of form: {read.error or ', '.join(read.repairs) or 'not one thought and one action'}"
    if (read.answer or "").strip() != (turn.answer or "").strip() or (read.call is None) != (turn.call is None):
        return "its text says something else than its record"
    return ""


@cache
def _tools(called: str) -> dict[str, Tool]:
    """The three of the protocol, and the one that was called where it is another."""
    names = (*AgentConfig().tools, *([called] if called in tool_names() else []))
    return make_tools(tuple(dict.fromkeys(names)))


async def verify(
    runs: Sequence[Path],
    out: Path,
    checks: Checks,
    against: Sequence[Sample] = (),
    reviewer: Reviewer | None = None,
) -> Verified:
    """Check the episodes of run folders and write the kept and the rejected ones to `out`.

    Of near-duplicates the first is kept, in the order of the runs. `against` is test data that nothing may share a
    picture or a question with. Raises `UserError` where a folder is no run, or `out` holds something else.
    """
    _check_out(runs, out)
    with only_writer(out):
        work = await check_rules(runs, checks, against)
        if reviewer is not None:
            await _review(work, reviewer)
        return _write(work, runs[0], out)


async def check_rules(runs: Sequence[Path], checks: Checks, against: Sequence[Sample]) -> Work:
    """What the rules find; writes nothing."""
    work = await _read_work(runs)
    for sample, trajectory in work.pairs:
        key = (sample.id, trajectory.rollout)
        work.findings[key] = findings_of(sample, trajectory, work.rows.get(key), checks)
    _find_twins(work, against)
    return work


def _check_out(runs: Sequence[Path], out: Path) -> None:
    if {out.resolve(), (out / REJECTED).resolve()} & {run.resolve() for run in runs}:
        raise UserError(f"--to {out}: choose another folder than the run that is checked")
    if not out.is_dir() or (out / FINDINGS).exists():
        return
    if any(path for path in out.iterdir() if not path.name.startswith(".") and path.name != CALLS):
        raise UserError(f"--to {out}: this folder holds another run or something else; choose an empty one")


async def _read_work(runs: Sequence[Path]) -> Work:
    """The episodes of run folders with their scores; those without a row are scored by rules."""
    work = Work([], {})
    for number, run in enumerate(runs):
        samples = {sample.id: sample for sample in read_samples(run)}
        rows = read_rows(run)
        for trajectory in read_trajectories(run):
            sample = samples.get(trajectory.sample_id)
            if sample is None:
                raise UserError(f"{run}: an episode of {trajectory.sample_id!r}, which is no sample of the run")
            row = rows.get((trajectory.sample_id, trajectory.rollout)) or await row_of(sample, trajectory, None)
            numbered = {"rollout": trajectory.rollout + number * 1_000_000}
            work.pairs.append((sample, trajectory.model_copy(update=numbered)))
            work.rows[sample.id, numbered["rollout"]] = row.model_copy(update=numbered)
    if not work.pairs:
        raise UserError(f"{runs[0]}: holds no episode")
    return work


def _find_twins(work: Work, against: Sequence[Sample]) -> None:
    """Add overlap with the test data, then near-duplicates among what is otherwise kept."""
    twins = Twins()
    twins.forbid(against)
    for sample, trajectory in work.pairs:
        found = work.findings[sample.id, trajectory.rollout]
        found += twins.overlap(sample)
        if found:
            continue
        found += twins.duplicate(sample, trajectory)
        if not found:
            twins.add(sample, trajectory)


async def _review(work: Work, reviewer: Reviewer) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(sample: Sample, trajectory: Trajectory) -> None:
        key = (sample.id, trajectory.rollout)
        async with slots:
            try:
                work.findings[key] += await reviewer.review(sample, trajectory)
            except ServiceError as error:
                work.unreviewed.add(key)
                work.last_failure = str(error)

    async with asyncio.TaskGroup() as group:
        for sample, trajectory in work.to_review:
            group.create_task(one(sample, trajectory))


def _write(work: Work, run: Path, out: Path) -> Verified:
    keys = [(sample.id, trajectory.rollout) for sample, trajectory in work.pairs]
    bad = [key for key in keys if work.findings[key]]
    kept = [key for key in keys if not work.findings[key] and key not in work.unreviewed]
    config = _config_of(run)
    lines = [Rejection(sample_id=key[0], rollout=key[1], findings=tuple(work.findings[key])) for key in bad]
    # First: by this file a start after a kill knows the folder as its own.
    write_records(out / FINDINGS, lines)
    write_run(out, config, work.episodes(kept))
    write_run(out / REJECTED, config, work.episodes(bad))
    write_records(out / REJECTED / FINDINGS, lines)
    kinds = Counter(kind for key in bad for kind in {finding.kind for finding in work.findings[key]})
    summary = Verified(
        episodes=len(keys),
        kept=len(kept),
        rejected=len(bad),
        unreviewed=len(work.unreviewed),
        kinds=dict(kinds.most_common()),
        last_failure=work.last_failure,
    )
    write_json(out / "summary.json", summary)
    return summary


def _config_of(run: Path) -> Any:
    value = read_json(run / "config.json")
    if not isinstance(value, dict) or "agent" not in value:
        raise UserError(f"{run}: its config.json has no agent, so it is not a run of episodes")
    return value


def describe(found: Verified) -> str:
    """A few lines for a person."""
    lines = [f"{found.kept} of {found.episodes} episodes are kept, {found.rejected} rejected"]
    lines += [f"  {kind}: {count}" for kind, count in found.kinds.items()]
    if found.unreviewed:
        lines.append(f"{found.unreviewed} could not be reviewed ({found.last_failure}); the same command asks on")
    return "\n".join(lines)
