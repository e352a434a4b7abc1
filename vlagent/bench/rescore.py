"""Score the episodes of a run again, without its model: another judge, newer rules, or verdicts that were missing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlagent.agent.store import TRAJECTORIES
from vlagent.bench.config import EvalConfig, read_config
from vlagent.bench.evaluate import JUDGE_CALLS, row_of
from vlagent.bench.runs import Key, read_rows, read_samples
from vlagent.bench.summary import Summary, summarise
from vlagent.errors import UserError
from vlagent.files import only_writer, read_records, write_json, write_records
from vlagent.rewards.opinions import OPINIONS, Marker
from vlagent.types import EvalRow, Outcome, Sample, Trajectory

KEPT = "rows.before-{}.jsonl"
COPIED = ("samples.jsonl", TRAJECTORIES, OPINIONS, "provenance.jsonl")
"""What a run of another scoring takes over as it is; the pictures stay where they are."""


@dataclass(frozen=True)
class Rescored:
    """What scoring again has changed."""

    summary: Summary
    episodes: int
    changed: int
    """Rows whose outcome is another one now, or that had none."""
    judge_failed: int
    """Rows that failed only because a judge could not be reached."""


async def rescore(
    run: Path,
    judge: Marker | None,
    scoring: dict[str, Any],
    on_row: Callable[[EvalRow], None] | None = None,
) -> Rescored:
    """Score every episode of a run folder again and write rows.jsonl and summary.json; no episode is played.

    `scoring` are the fields of the configuration that say who judges; they replace those in config.json, so that a
    resumption scores alike. The rows that were there stay beside it. Verdicts that the folder holds are not asked for
    again. Raises `UserError` where the folder is no evaluation's, or another process is writing in it.
    """
    config = EvalConfig.model_validate(read_config(run).model_dump(mode="json") | scoring)
    with only_writer(run):
        samples, before = read_samples(run), read_rows(run)
        episodes = {(t.sample_id, t.rollout): t for t in read_records(run / TRAJECTORIES, Trajectory)}
        if not episodes:
            raise UserError(f"{run}: holds no episode to score; vlagent eval --resume {run} plays some")
        rows = await _score(_in_order(samples, config, episodes), judge, on_row)
        _keep(run, before)
        write_records(run / "rows.jsonl", rows)
        write_json(run / "config.json", config)
        summary = summarise(run)
        write_json(run / "summary.json", summary)
    was = {key: row.outcome for key, row in before.items()}
    return Rescored(
        summary,
        episodes=len(rows),
        changed=sum(was.get((row.sample_id, row.rollout)) is not row.outcome for row in rows),
        judge_failed=sum(row.outcome is Outcome.FAILED and row.why.startswith("judge failed") for row in rows),
    )


def copy_run(run: Path, to: Path) -> None:
    """Make a new run folder of the same episodes, to be scored otherwise. `UserError` where `to` is not empty."""
    read_config(run)
    if to.exists() and any(to.iterdir()):
        raise UserError(f"{to}: this folder holds something; choose an empty one for --to")
    to.mkdir(parents=True, exist_ok=True)
    for name in (*COPIED, "rows.jsonl", "config.json"):
        if (run / name).exists():
            shutil.copyfile(run / name, to / name)
    if (run / "tokens").is_dir():
        shutil.copytree(run / "tokens", to / "tokens")


def _in_order(
    samples: Sequence[Sample], config: EvalConfig, episodes: dict[Key, Trajectory]
) -> list[tuple[Sample, Trajectory]]:
    keys = [(sample, (sample.id, k)) for sample in samples for k in range(config.rollouts_of(sample.source))]
    return [(sample, episodes[key]) for sample, key in keys if key in episodes]


async def _score(
    pairs: Sequence[tuple[Sample, Trajectory]], judge: Marker | None, on_row: Callable[[EvalRow], None] | None
) -> list[EvalRow]:
    slots = asyncio.Semaphore(JUDGE_CALLS)

    async def one(sample: Sample, trajectory: Trajectory) -> EvalRow:
        async with slots:
            row = await row_of(sample, trajectory, judge)
        if on_row:
            on_row(row)
        return row

    return list(await asyncio.gather(*(one(*pair) for pair in pairs)))


def _keep(run: Path, before: dict[Key, EvalRow]) -> None:
    """Leave the earlier rows beside the new ones, under the first free number."""
    if before:
        number = next(n for n in range(1, 10_000) if not (run / KEPT.format(n)).exists())
        (run / "rows.jsonl").rename(run / KEPT.format(number))
