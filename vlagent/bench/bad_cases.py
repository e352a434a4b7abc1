"""Everything that a run did not get right, as a table to work through."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

from vlagent.agent.store import TRAJECTORIES
from vlagent.bench.results import harmless
from vlagent.bench.runs import read_rows, read_samples
from vlagent.files import read_records
from vlagent.types import Outcome, Trajectory

HEAD = (
    *("suite", "sample_id", "rollout", "outcome", "by", "why", "question", "answer", "accepted", "choices", "stop"),
    *("stop_detail", "turns", "calls", "tools", "invalid", "repairs", "degraded", "pictures", "slices", "seconds"),
)
BAD = frozenset({Outcome.WRONG, Outcome.UNSCORED, Outcome.FAILED})


def bad_cases(run: Path) -> str:
    """CSV of the episodes that are wrong, unscored or failed. Raises `UserError` where the folder is no evaluation."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for cells in _rows(run):
        writer.writerow([harmless(cell) for cell in cells])
    return out.getvalue()


def _rows(run: Path) -> Iterator[list[str]]:
    samples = {sample.id: sample for sample in read_samples(run)}
    rows = {key: row for key, row in read_rows(run).items() if row.outcome in BAD}
    played = {
        key: trajectory
        for trajectory in read_records(run / TRAJECTORIES, Trajectory)
        if (key := (trajectory.sample_id, trajectory.rollout)) in rows
    }
    for key, row in rows.items():
        sample, trajectory = samples[row.sample_id], played.get(key)
        turns = trajectory.turns if trajectory else ()
        calls = [turn.call.name for turn in turns if turn.call]
        yield [
            *(row.suite, row.sample_id, str(row.rollout), str(row.outcome), row.by, row.why, sample.question),
            *(row.answer or "", " | ".join(row.answers), _json(sample.choices), str(row.stop)),
            *(trajectory.stop_detail if trajectory else "", str(len(turns)), str(len(calls)), " ".join(calls)),
            str(sum(turn.error is not None for turn in turns)),
            " ".join(repair for turn in turns for repair in turn.repairs),
            *("yes" if row.degraded else "", " ".join(image.path for image in sample.images), _json(row.slices)),
            f"{trajectory.timings.total_s:.1f}" if trajectory else "",
        ]


def _json(table: dict[str, str]) -> str:
    return json.dumps(table, ensure_ascii=False) if table else ""
