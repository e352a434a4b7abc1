"""The folder of an evaluation: what is done, what is left, after any kill.

An episode is written first, its row after it has been scored. A kill between the two leaves an episode without a row,
which is scored again and not played again. Of several records of one episode the last counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlagent.agent.store import TRAJECTORIES, write_trajectory
from vlagent.bench.config import EvalConfig, check_same, read_config
from vlagent.errors import UserError
from vlagent.files import append_jsonl, iter_jsonl, read_records, write_atomic, write_json, write_records
from vlagent.rewards.rubric import FAILURES
from vlagent.types import EvalRow, Outcome, Sample, StopReason, Trajectory

STOPPED = frozenset({StopReason.STOPPED_BY_USER, StopReason.CANCELLED})
Key = tuple[str, int]
"""(sample id, rollout); ids are unique within a run."""


@dataclass
class Book:
    """The state of one run folder."""

    run: Path
    samples: Sequence[Sample]
    rollouts_of: Callable[[str], int]
    """Rollouts a question of a data set."""
    rows: dict[Key, EvalRow] = field(default_factory=dict)
    stops: dict[Key, StopReason] = field(default_factory=dict)
    """How each episode on disk ended."""
    cost_usd: float = 0.0
    """Of every attempt on disk."""
    unscored: dict[Key, Trajectory] = field(default_factory=dict)
    """Episodes that are over and wait for their row."""

    @property
    def planned(self) -> list[tuple[Sample, int]]:
        return [(sample, rollout) for sample in self.samples for rollout in range(self.rollouts_of(sample.source))]

    def to_score(self) -> list[tuple[Sample, Trajectory]]:
        """Episodes that are over but have no row, or one that only the judge's failure made."""
        keys = [(sample, (sample.id, rollout)) for sample, rollout in self.planned]
        return [(sample, self.unscored[key]) for sample, key in keys if key in self.unscored]

    def to_play(self) -> list[tuple[Sample, int]]:
        """Episodes that never ended, failed, or were stopped."""
        return [
            (sample, rollout) for sample, rollout in self.planned if not is_over(self.stops.get((sample.id, rollout)))
        ]

    def add(self, row: EvalRow) -> None:
        """Keep a row, in memory and on disk."""
        self.rows[row.sample_id, row.rollout] = row
        append_jsonl(self.run / "rows.jsonl", row)

    def compact(self) -> None:
        """Leave one line an episode: rows in the order of the samples, trajectories as they came."""
        keys = [(sample.id, rollout) for sample, rollout in self.planned]
        ordered = [self.rows[key] for key in keys if key in self.rows]
        write_records(self.run / "rows.jsonl", ordered)
        _keep_last_lines(self.run / TRAJECTORIES)


def open_book(run: Path, config: EvalConfig, samples: Sequence[Sample]) -> Book:
    """Start a run folder, or go on with one whose configuration and samples are the same."""
    if (run / "config.json").exists():
        check_same(read_config(run), config, run)
        _check_samples(run, samples)
    elif run.is_dir() and any(path for path in run.iterdir() if not _is_start_of_run(path)):
        raise UserError(f"{run}: this folder holds something else; choose an empty one for --run")
    else:
        write_records(run / "samples.jsonl", samples)
        write_json(run / "config.json", config)
    return read_book(run, samples, config.rollouts_of)


def _is_start_of_run(path: Path) -> bool:
    """What a kill before the first config.json leaves; hidden files are our lock and half-written files."""
    return path.name in ("samples.jsonl", "images") or path.name.startswith(".")


def read_book(run: Path, samples: Sequence[Sample], rollouts_of: Callable[[str], int]) -> Book:
    """What a run folder holds so far."""
    book = Book(run, samples, rollouts_of)
    book.rows = read_rows(run)
    for trajectory in read_records(run / TRAJECTORIES, Trajectory):
        key = (trajectory.sample_id, trajectory.rollout)
        book.stops[key] = trajectory.stop
        book.cost_usd += trajectory.usage.cost_usd
        if is_over(trajectory.stop) and not _is_scored(book.rows.get(key)):
            book.unscored[key] = trajectory
    return book


def is_over(stop: StopReason | None) -> bool:
    """Whether an episode ended for good: not failed, not stopped, so never to be played again."""
    return stop is not None and stop not in FAILURES | STOPPED


def _is_scored(row: EvalRow | None) -> bool:
    return row is not None and row.outcome not in (Outcome.FAILED, Outcome.NOT_COUNTED)


def read_rows(run: Path) -> dict[Key, EvalRow]:
    """The scores of a run; of several of one episode, the last."""
    return {(row.sample_id, row.rollout): row for row in read_records(run / "rows.jsonl", EvalRow)}


def write_run(run: Path, config: Any, episodes: Sequence[tuple[Sample, Trajectory, EvalRow | None]]) -> None:
    """A run folder of these episodes, written anew; pictures stay where they are."""
    (run / TRAJECTORIES).unlink(missing_ok=True)
    write_records(run / "samples.jsonl", {sample.id: sample for sample, _, _ in episodes}.values())
    for _, trajectory, _ in episodes:
        write_trajectory(run, trajectory)
    write_records(run / "rows.jsonl", [row for _, _, row in episodes if row is not None])
    write_json(run / "config.json", config)


def read_samples(run: Path) -> list[Sample]:
    """The samples that a run was started with."""
    samples = list(read_records(run / "samples.jsonl", Sample))
    if not samples:
        raise UserError(f"{run}: holds no samples.jsonl; it is not the folder of an evaluation")
    return samples


def _check_samples(run: Path, samples: Sequence[Sample]) -> None:
    before = read_samples(run)
    if len(before) != len(samples):
        raise UserError(f"{run}: the data had {len(before)} questions and has {len(samples)} now; choose another --run")
    for old, new in zip(before, samples, strict=True):
        if _plain(old) != _plain(new):
            raise UserError(f"{run}: question {new.id!r} has changed since the run began; choose another --run")


def _plain(sample: Sample) -> Any:
    return json.loads(sample.model_dump_json())


def _keep_last_lines(path: Path) -> None:
    if not path.exists():
        return
    values = list(iter_jsonl(path, ours=True))
    last = {(value["sample_id"], value["rollout"]): number for number, value in enumerate(values)}
    kept = sorted(last.values())
    if len(kept) < len(values):
        lines = (json.dumps(values[number], ensure_ascii=False, separators=(",", ":")) for number in kept)
        write_atomic(path, "".join(line + "\n" for line in lines))
