"""Where the numbers of a run go."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import pytest

from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_records
from vlagent.train.folder import cut_metrics
from vlagent.train.rl.alarms import Alarm, AlarmConfig
from vlagent.train.rl.watch import ALARMS, TRACKERS, Watch, WatchConfig

QUIET = WatchConfig(alarms=AlarmConfig(baseline=1, window=1))
STEP = {"episodes": 8.0, "entropy": 1.0, "reward/mean": 0.5}


def test_every_step_is_a_line_of_metrics(tmp_path: Path) -> None:
    watch = Watch(tmp_path, QUIET)
    assert watch.log(1, STEP) == []
    watch.note(1, {"validation/success": 0.25})
    lines = list(iter_jsonl(tmp_path / "metrics.jsonl"))
    assert lines == [{"step": 1, **STEP}, {"step": 1, "validation/success": 0.25}]


def test_an_alarm_is_returned_once_kept_in_a_file_and_heard_again_after_a_recovery(tmp_path: Path) -> None:
    watch, bad = Watch(tmp_path, QUIET), {**STEP, "entropy": 0.001}
    heard = [len(watch.log(n, values)) for n, values in enumerate([STEP, bad, bad, STEP, bad], 1)]
    assert heard == [0, 1, 0, 0, 1]
    kept = list(read_records(tmp_path / ALARMS, Alarm))
    assert [(alarm.name, alarm.step) for alarm in kept] == [("entropy_collapse", 2), ("entropy_collapse", 5)]


def test_a_resumed_run_remembers_what_is_usual_and_what_rings_already(tmp_path: Path) -> None:
    first, bad = Watch(tmp_path, QUIET), {**STEP, "entropy": 0.001}
    first.log(1, STEP)
    assert len(Watch(tmp_path, QUIET).log(2, bad)) == 1
    assert Watch(tmp_path, QUIET).log(3, bad) == []


def test_a_resumed_run_forgets_the_alarms_of_the_steps_that_it_plays_again(tmp_path: Path) -> None:
    watch, bad = Watch(tmp_path, QUIET), {**STEP, "entropy": 0.001}
    for step, values in enumerate([STEP, bad, STEP, bad], 1):
        watch.log(step, values)
    for name in ("metrics.jsonl", ALARMS):
        cut_metrics(tmp_path, 3, name)
    resumed = Watch(tmp_path, QUIET)
    assert [alarm.step for alarm in read_records(tmp_path / ALARMS, Alarm)] == [2]
    assert len(resumed.log(4, bad)) == 1


def test_a_value_that_is_no_number_can_be_written_and_read_again(tmp_path: Path) -> None:
    Watch(tmp_path, QUIET).log(1, {**STEP, "loss": math.nan})
    (line,) = iter_jsonl(tmp_path / "metrics.jsonl")
    assert math.isnan(line["loss"])


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_is_the_users_error_with_its_fix(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(UserError, match=rf"watch\.{name} = true .* pip install {name}"):
        Watch(tmp_path, WatchConfig.model_validate({name: True}))


def test_tensorboard_is_told_the_same_values(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    watch = Watch(tmp_path, WatchConfig(tensorboard=True))
    for step in (1, 2):
        watch.log(step, {**STEP, "reward/mean": step / 4})
    watch.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("reward/mean")] == [(1, 0.25), (2, 0.5)]
    assert set(events.Tags()["scalars"]) == set(STEP)


def test_tensorboard_shows_a_step_that_is_played_again_once(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for steps in ((1, 2, 3), (2, 3)):
        watch = Watch(tmp_path, WatchConfig(tensorboard=True))
        for step in steps:
            watch.log(step, {**STEP, "reward/mean": step / 4})
        watch.close()
        cut_metrics(tmp_path, 1)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("reward/mean")] == [1, 2, 3]


def test_weights_and_biases_is_told_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    watch = Watch(tmp_path, WatchConfig(wandb=True, project="p", name="n"), {"lr": 1e-5})
    watch.log(1, STEP)
    assert wandb.run.config["lr"] == 1e-5
    watch.close()
    wandb.teardown()  # it writes in a process of its own
    (record,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert b"reward/mean" in record.read_bytes()


def test_trackio_is_told_the_same_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio", reason="trackio is not installed")
    from trackio.sqlite_storage import SQLiteStorage

    watch = Watch(tmp_path, WatchConfig(trackio=True, project="p", name="n"))
    watch.log(1, STEP)
    watch.close()
    (logged,) = SQLiteStorage.get_logs("p", "n")
    assert (logged["step"], logged["reward/mean"]) == (1, 0.5)
