"""The folder of a training run: config.json, metrics.jsonl, checkpoints/, validation/, model/, summary.json."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from vlagent.errors import UserError
from vlagent.files import LOCK, append_jsonl, iter_jsonl, read_json, write_atomic, write_json
from vlagent.train.config import SftConfig
from vlagent.types import Record

FREE = frozenset(
    {
        *("run", "save.every", "save.keep", "model.device", "model.threads", "model.gradient_checkpointing"),
        *("batch.micro_rows", "batch.micro_tokens", "validation.concurrency", "model.export_dtype"),
    }
)
"""May change between a run and its resumption: where and how fast, not what is computed. `x.` is all below x."""
METRICS = "metrics.jsonl"


C = TypeVar("C", bound=BaseModel)


class SftSummary(Record):
    """How a run ended."""

    verb: str = "sft"
    run: str
    ended: str
    """`complete` or `stopped`."""
    steps: int
    total_steps: int
    epochs: float
    rows: int
    """Rows trained on, each as often as it was seen."""
    tokens: int
    loss: float | None
    """Of the last step, in nats per own token."""
    validation_loss: float | None = None
    success: float | None = None
    """Share of the validation questions that were answered rightly in free running."""
    success_scored: int = 0
    left_out: dict[str, int] = Field(default_factory=dict)
    """Episodes that gave no row, by reason."""
    model: str | None = None
    """The exported folder."""


def new_name(verb: str = "sft") -> Path:
    """A folder for a run that was given none."""
    return Path("runs") / f"{verb}-{time.strftime('%Y%m%d-%H%M%S')}"


def refuse_full(run: Path) -> None:
    """Raises `UserError` where the folder holds something."""
    if run.is_dir() and any(path.name != LOCK for path in run.iterdir()):
        going = f"go on with it by --resume {run}, or " if (run / "config.json").exists() else ""
        raise UserError(f"{run}: this folder is not empty; {going}choose another run=DIR")


def start_folder(run: Path, config: BaseModel) -> None:
    """Claim an empty folder for a run. Raises `UserError` where it holds something."""
    refuse_full(run)
    write_json(run / "config.json", config.model_copy(update={"run": str(run)}))


def read_sft_config(run: Path) -> SftConfig:
    """The configuration that a run was started with."""
    return read_run_config(run, SftConfig, "sft")


def read_run_config(run: Path, kind: type[C], verb: str) -> C:
    """The configuration that a run of this verb was started with."""
    try:
        return kind.model_validate(read_json(run / "config.json"))
    except ValidationError:
        raise UserError(f"{run}: its config.json is not that of an {verb} run") from None


def check_same_run(before: BaseModel, now: BaseModel, run: Path, free: frozenset[str] = FREE) -> None:
    """`UserError` that names the first key that decides results and has changed."""
    old, new = _flat(before.model_dump(mode="json")), _flat(now.model_dump(mode="json"))
    for name in sorted(old.keys() | new.keys()):
        if not _is_free(name, free) and old.get(name) != new.get(name):
            raise UserError(
                f"{run}: {name} was {old.get(name)!r} and is now {new.get(name)!r}; "
                "resume with the same value, or start another run"
            )


def _is_free(name: str, free: frozenset[str]) -> bool:
    return name in free or any(table.endswith(".") and name.startswith(table) for table in free)


def record_metrics(run: Path, values: dict[str, Any]) -> None:
    """Append one line."""
    append_jsonl(run / METRICS, values)


def last_values(run: Path, step: int | None = None) -> dict[str, Any]:
    """The newest value of everything that the metrics hold, or hold of one step."""
    values: dict[str, Any] = {}
    for line in iter_jsonl(run / METRICS, ours=True) if (run / METRICS).exists() else ():
        if step is None or line["step"] == step:
            values |= line
    return values


def last_step(run: Path) -> int:
    """The last step that has values; 0 where none has."""
    path = run / METRICS
    return max((int(line["step"]) for line in iter_jsonl(path, ours=True)), default=0) if path.exists() else 0


def cut_metrics(run: Path, step: int, name: str = METRICS) -> None:
    """Forget what was measured after `step`: a resumed run measures it again."""
    if not (run / name).exists():
        return
    kept = [line for line in iter_jsonl(run / name, ours=True) if line["step"] <= step]
    write_atomic(run / name, "".join(json.dumps(line) + "\n" for line in kept))


def _flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) and value else {f"{prefix}{key}": value}
    return flat
