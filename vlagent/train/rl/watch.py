"""Where the numbers of a run go: metrics.jsonl always; TensorBoard, W&B and Trackio by switch, with the same values."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from vlagent.errors import UserError
from vlagent.files import append_jsonl, iter_jsonl
from vlagent.train.folder import METRICS, last_step, record_metrics
from vlagent.train.rl.alarms import Alarm, AlarmConfig, check
from vlagent.types import Record

ALARMS = "alarms.jsonl"


class WatchConfig(Record):
    """Which trackers are told, and when alarms are raised."""

    tensorboard: bool = False
    """Event files in RUN/tensorboard."""
    wandb: bool = False
    """Weights & Biases; its own environment variables (WANDB_MODE, WANDB_API_KEY, ...) apply."""
    trackio: bool = False
    project: str = "vlagent"
    """Of W&B and Trackio."""
    name: str | None = None
    """Of the run there; None is the name of its folder."""
    alarms: AlarmConfig = AlarmConfig()


class Tracker(Protocol):
    """One place that is told the values of a step."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...
    def close(self) -> None: ...


class Watch:
    """Told every step; returns the alarms that are new. Use it in the first process only."""

    def __init__(self, run: Path, config: WatchConfig, settings: Mapping[str, Any] | None = None) -> None:
        """Opens the trackers; `settings` is the run's configuration, which they show beside the curves."""
        self.run, self.config = run, config
        self._history = read_values(run)
        self._ringing = {alarm.name for alarm in self._check_last()}
        chosen = [make for name, make in TRACKERS.items() if getattr(config, name)]
        self._trackers: list[Tracker] = [make(run, config, dict(settings or {})) for make in chosen]

    def _check_last(self) -> list[Alarm]:
        if not self._history:
            return []
        return check(self.config.alarms, 0, self._history[-1], self._history[:-1])

    def log(self, step: int, values: Mapping[str, float]) -> list[Alarm]:
        """Keep the values of a step and hand them on; alarms are kept in alarms.jsonl too."""
        record_metrics(self.run, {"step": step, **values})
        for tracker in self._trackers:
            tracker.log(step, values)
        alarms = check(self.config.alarms, step, values, self._history)
        self._history.append(dict(values))
        new = [alarm for alarm in alarms if alarm.name not in self._ringing]
        self._ringing = {alarm.name for alarm in alarms}
        if new:
            append_jsonl(self.run / ALARMS, *new)
        return new

    def note(self, step: int, values: Mapping[str, float]) -> None:
        """Values that are no step's own, such as a validation: kept and handed on, never an alarm."""
        record_metrics(self.run, {"step": step, **values})
        for tracker in self._trackers:
            tracker.log(step, values)

    def close(self) -> None:
        """Flush the trackers."""
        for tracker in self._trackers:
            tracker.close()


def read_values(run: Path) -> list[dict[str, float]]:
    """The values of the steps so far (lines that hold episodes), oldest first."""
    path = run / METRICS
    lines = iter_jsonl(path, ours=True) if path.exists() else ()
    return [
        {name: float(value) for name, value in line.items() if isinstance(value, int | float) and name != "step"}
        for line in lines
        if "episodes" in line
    ]


class TensorBoard:
    """Event files, written by the writer that comes with torch. A resumed run hides the steps that it plays again."""

    def __init__(self, run: Path, config: WatchConfig, settings: Mapping[str, Any]) -> None:  # noqa: ARG002
        _need("tensorboard")
        writer = _need("torch.utils.tensorboard").SummaryWriter
        self._writer = writer(str(run / "tensorboard"), purge_step=last_step(run) + 1)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandB:
    """Weights & Biases. A resumed run goes on with the same curves."""

    def __init__(self, run: Path, config: WatchConfig, settings: Mapping[str, Any]) -> None:
        wandb = _need("wandb")
        name = config.name or run.resolve().name
        where = {"project": config.project, "name": name, "id": _identity(run), "resume": "allow", "dir": str(run)}
        self._run = wandb.init(**where, config=dict(settings))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """Trackio, local unless its own environment variables say otherwise."""

    def __init__(self, run: Path, config: WatchConfig, settings: Mapping[str, Any]) -> None:
        self._trackio = _need("trackio")
        name = config.name or f"{run.resolve().name}-{_identity(run)}"
        self._trackio.init(project=config.project, name=name, config=dict(settings), resume="allow", embed=False)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._trackio.log(dict(values), step=step)

    def close(self) -> None:
        self._trackio.finish()


TRACKERS: dict[str, Callable[[Path, WatchConfig, Mapping[str, Any]], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
}


def need_trackers(config: WatchConfig) -> None:
    """`UserError` where a tracker that is switched on is not installed."""
    for name in TRACKERS:
        if getattr(config, name):
            _need(name)


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.split(".")[0]
        raise UserError(f"watch.{name} = true needs {error.name}: pip install {name}") from None


def _identity(run: Path) -> str:
    """Of a run folder, the same whenever it is resumed."""
    return hashlib.blake2b(str(run.resolve()).encode(), digest_size=5).hexdigest()
