"""A finished run as one small record: from its folders, once, and never again."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlagent.bench.ablation import RunResult
from vlagent.bench.runs import read_samples
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, read_records
from vlagent.train.ablate.config import AblateConfig
from vlagent.train.ablate.plan import (
    Job,
    cells_of,
    changes_of,
    digest_of,
    eval_folder,
    eval_words,
    job_folder,
    rl_folder,
    shown,
    train_words,
)
from vlagent.train.ablate.work import used_s
from vlagent.train.rl.metrics import kind_of, redundant_calls
from vlagent.types import EvalRow, Outcome, Trajectory

CURVES = (
    *("success/all", "validation/success", "reward/mean", "calls/redundant", "turns/invalid"),
    *("bn/p", "bn/factor", "ratio/one", "clip/low", "clip/high", "kl", "entropy", "grad_norm"),
)
"""Numbers of a training that a result keeps."""
MARKS = {Outcome.RIGHT: "1", Outcome.WRONG: "0"}


def collect(config: AblateConfig, job: Job, spent: Sequence[dict[str, Any]]) -> RunResult:
    """The result of a run whose processes have all ended well; `spent` is what its attempts used."""
    asked = eval_folder(config, job)
    samples = read_samples(asked)
    rows = {row.sample_id: row for row in read_records(asked / "rows.jsonl", EvalRow)}
    by_id = {sample.id: sample for sample in samples}
    played = {t.sample_id: t for t in read_records(asked / "trajectories.jsonl", Trajectory)}
    missing = [sample.id for sample in samples if sample.id not in rows or sample.id not in played]
    if missing or not samples:
        lacks = f"question {missing[0]!r} has no row or no episode" if missing else "it holds no question"
        raise UserError(f"{asked}: {lacks}; remove {job_folder(config, job)}, and the run is made again")
    ids = [sample.id for sample in samples]
    attempts = [line for line in spent if line["stage"] == "rl"]
    words = [train_words(config, job)] if job.trains else []
    return RunResult(
        arm=job.arm,
        mix=job.mix,
        start=job.start,
        seed=job.seed,
        order=cells_of(config).index(job.cell) if job.trains else -1,
        commands=tuple(shown(each) for each in (*words, eval_words(config, job))),
        commit=commit(),
        config=digest_of(config, job),
        settings={key: value for key, value in changes_of(config, job).items() if key != "run"},
        steps=_steps(config, job),
        core_s=round(used_s(spent, "rl"), 1),
        interrupted=sum("started" in line for line in attempts) - sum("core_s" in line for line in attempts),
        curves=curves(rl_folder(config, job)) if job.trains else {},
        questions=hashlib.blake2b("\n".join(ids).encode(), digest_size=8).hexdigest(),
        kinds=tuple(kind_of(sample) for sample in samples),
        outcomes="".join(MARKS.get(rows[name].outcome, "-") for name in ids),
        calls=round(sum(sum(turn.call is not None for turn in t.turns) for t in played.values()) / len(played), 4),
        redundant=round(sum(redundant_calls(by_id[name], t) for name, t in played.items()) / len(played), 4),
    )


def curves(run: Path) -> dict[str, tuple[tuple[float, ...], tuple[float | None, ...]]]:
    """The kept numbers of a run folder, to four digits."""
    lines = list(iter_jsonl(run / "metrics.jsonl", ours=True))
    found = {}
    for name in CURVES:
        points = [(float(line["step"]), float(line[name])) for line in lines if name in line]
        if points:
            values = tuple(float(f"{value:.4g}") if value - value == 0 else None for _, value in points)
            found[name] = (tuple(step for step, _ in points), values)
    return found


def _steps(config: AblateConfig, job: Job) -> int:
    if not job.trains:
        return 0
    steps = read_json(rl_folder(config, job) / "summary.json").get("steps")
    if not isinstance(steps, int):
        raise UserError(f"{rl_folder(config, job)}: its summary.json names no steps; remove {job_folder(config, job)}")
    return steps


def commit() -> str:
    """The checkout that runs, `+` with uncommitted changes; `unknown` where it is none."""
    folder = Path(__file__).parent
    words = (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "-uno"])
    try:
        head, dirty = (
            subprocess.run(["git", *each], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()
            for each in words
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")
