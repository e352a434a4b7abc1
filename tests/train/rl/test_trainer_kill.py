from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.rl.world import config, examined, metrics, weights
from vlagent.cli.main import main
from vlagent.errors import PermanentError, UserError
from vlagent.train import checkpoint, validate
from vlagent.train.checkpoint import checkpoints
from vlagent.train.folder import check_same_run, read_run_config, start_folder
from vlagent.train.rl import rollout
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.folder import FREE
from vlagent.train.rl.run import train_rl
from vlagent.train.sft import make_accelerator


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _in_rollout() -> None:
    """Dies when some episodes of the second step are scored and others run."""
    collect = rollout.Rollouts.collect

    async def torn(self: Any, step: int, *rest: Any) -> Any:
        rows: list[Any] = []
        if step == 1:
            self.on_row = lambda row: _die() if rows.append(row) or len(rows) == 7 else None  # type: ignore[func-returns-value]
        return await collect(self, step, *rest)

    rollout.Rollouts.collect = torn  # type: ignore[method-assign]


def _asked_to_stop() -> None:
    """Gets Ctrl-C as the second step begins."""
    collect = rollout.Rollouts.collect

    async def asked(self: Any, step: int, *rest: Any) -> Any:
        if step == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return await collect(self, step, *rest)

    rollout.Rollouts.collect = asked  # type: ignore[method-assign]


def _asked_to_stop_in_validation(step: int) -> Callable[[], None]:
    """Gets Ctrl-C as the validation after a step begins."""

    def prepare() -> None:
        play = validate.Exam.play

        async def asked(self: Any, chat: Any, samples: Any, folder: Path, stop: Any) -> Any:
            if folder.name == f"step-{step:06d}":
                os.kill(os.getpid(), signal.SIGINT)
            return await play(self, chat, samples, folder, stop)

        validate.Exam.play = asked  # type: ignore[method-assign]

    return prepare


def _in_update() -> None:
    """Dies between two passes of the third step."""
    from vlagent.train.rl.trainer import PolicyTrainer

    compute, calls = PolicyTrainer._compute_loss, []

    def torn(self: Any, model: Any, inputs: Any) -> Any:
        calls.append(self._here)
        if calls.count((2, 0)) == 2:
            _die()
        return compute(self, model, inputs)

    PolicyTrainer._compute_loss = torn


def _in_checkpoint() -> None:
    """Dies in the middle of the optimizer's file of the first checkpoint."""
    write = checkpoint.torch.save

    def torn(state: Any, path: Path) -> None:
        write(state, path)
        path.write_bytes(path.read_bytes()[:100])
        _die()

    checkpoint.torch.save = torn  # type: ignore[attr-defined]


def _child(run: Path, prepare: Callable[[], None]) -> None:
    prepare()
    raise SystemExit(main(["rl", "--resume", str(run)]))


def _start(settings: RlConfig, prepare: Callable[[], None]) -> Any:
    """The run, by its verb, in a process of its own."""
    run = Path(str(settings.run))
    start_folder(run, settings)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(run, prepare))
    process.start()
    return process


def _resume(run: Path) -> None:
    train_rl(read_run_config(run, RlConfig, "rl"), resume=True)


@pytest.mark.parametrize(
    ("prepare", "saved", "recorded"), [(_in_rollout, 0, 1), (_in_update, 1, 3), (_in_checkpoint, 0, 2)]
)
def test_a_killed_run_resumes_to_the_same_bits(
    world: Path, whole: Path, tmp_path: Path, prepare: Callable[[], None], saved: int, recorded: int
) -> None:
    run = tmp_path / "run"
    process = _start(config(world, run), prepare)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert len(checkpoints(run)) == saved
    played = {path.name: path.stat().st_mtime_ns for path in (run / "rollouts").glob("step-*")}
    assert len(played) == recorded
    _resume(run)
    assert {name: (run / "rollouts" / name).stat().st_mtime_ns for name in played} == played
    assert metrics(run) == metrics(whole)
    assert weights(run / "model") == weights(whole / "model")
    assert not list((run / "checkpoints").glob(".*"))


def test_ctrl_c_ends_with_130_and_a_checkpoint_to_go_on_from(world: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = _start(config(world, run, "save.every=100"), lambda: None)
    deadline = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 130
    ended = json.loads((run / "summary.json").read_text())
    assert ended["ended"] == "stopped"
    assert [path.name for path in checkpoints(run)] == [f"step-{ended['steps']:06d}"]
    _resume(run)
    assert metrics(run) == metrics(whole)
    assert weights(run / "model") == weights(whole / "model")


def test_playing_alone_goes_on_where_it_was_stopped(world: Path, tmp_path: Path) -> None:
    run, settings = tmp_path / "run", ("debug.rollout_only=true", "steps=2")
    process = _start(config(world, run, *settings), _asked_to_stop)
    process.join(60)
    assert process.exitcode == 130
    assert [path.name for path in checkpoints(run)] == ["step-000001"]
    _resume(run)
    assert json.loads((run / "summary.json").read_text())["ended"] == "complete"
    train_rl(config(world, tmp_path / "undisturbed", *settings))
    assert metrics(run) == metrics(tmp_path / "undisturbed")


def test_a_service_that_fails_between_two_optimizer_steps_leaves_no_half_step(
    world: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vlagent.train.rl.trainer import PolicyTrainer

    compute = PolicyTrainer._compute_loss

    def torn(self: Any, model: Any, inputs: Any) -> Any:
        if self._here == (1, 2):
            raise PermanentError("pictures", "gone")
        return compute(self, model, inputs)

    run = tmp_path / "run"
    settings = (f"debug.replay={whole / 'rollouts'}", "batch.minibatches=3", "steps=2", "save.every=100")
    train_rl(config(world, tmp_path / "undisturbed", *settings))
    monkeypatch.setattr(PolicyTrainer, "_compute_loss", torn)
    with pytest.raises(PermanentError):
        train_rl(config(world, run, *settings))
    monkeypatch.undo()
    _resume(run)
    assert metrics(run) == metrics(tmp_path / "undisturbed")
    assert weights(run / "model") == weights(tmp_path / "undisturbed" / "model")


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_sharded_weights_are_refused_before_anything_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"ACCELERATE_USE_{name}", "true")
    with pytest.raises(UserError, match=f"{name}: sharded weights are not supported"):
        train_rl(config(tmp_path, tmp_path / "run"))
    with pytest.raises(UserError, match=f"{name}: sharded weights are not supported"):
        make_accelerator(config(tmp_path, tmp_path / "run").model)
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_is_not_installed_leaves_the_folder_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(UserError, match="pip install trackio"):
        train_rl(config(tmp_path, tmp_path / "run", "watch.trackio=true"))
    assert not (tmp_path / "run").exists()


def test_services_that_fail_too_often_end_with_3_and_a_checkpoint(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A judge that nobody serves: wrong answers cannot be scored, and no wrong answer is made of that."""
    run, asked = tmp_path / "run", tmp_path / "rows.jsonl"
    rows = [json.loads(line) for line in (world / "rows.jsonl").read_text().splitlines()]
    unknown = [row | {"reward_model": {"ground_truth": "nobody says this"}} for row in rows]
    asked.write_text("".join(json.dumps(row) + "\n" for row in unknown))
    source = f'data.sources=[{{data="{asked}"}}]'
    judge = 'rewards.judge={model="m", base_url="http://127.0.0.1:9/v1", attempts=1}'
    start_folder(run, config(world, run, source, judge, "rewards.max_fault_share=0.0"))
    assert main(["rl", "--resume", str(run)]) == 3
    assert "of 36 episodes of a step" in capsys.readouterr().err
    assert [path.name for path in checkpoints(run)] == ["step-000000"]
    assert not list((run / "rollouts").glob("step-*"))


def test_best_weights_outlive_a_kill(ruined: Path, tmp_path: Path) -> None:
    """Validation found its best before the kill: a resumed run still exports it."""
    best, run = weights(ruined / "model"), tmp_path / "run"
    shutil.copytree(ruined, run)
    for name in ("model", "last", "checkpoints/step-000003"):
        shutil.rmtree(run / name)
    settings = read_run_config(run, RlConfig, "rl").model_copy(update={"run": str(run)})
    train_rl(settings, resume=True)
    assert weights(run / "model") == best
    assert metrics(run) == metrics(ruined)


def test_a_validation_that_was_interrupted_is_made_up_for(ruined: Path, tmp_path: Path) -> None:
    run, file = tmp_path / "run", tmp_path / "run" / "metrics.jsonl"
    shutil.copytree(ruined, run)
    lines = file.read_text().splitlines(keepends=True)
    assert "validation/success" in lines[-1]
    file.write_text("".join(lines[:-1]))
    shutil.rmtree(run / "validation" / "step-000003")
    train_rl(read_run_config(run, RlConfig, "rl").model_copy(update={"run": str(run)}), resume=True)
    assert metrics(run) == metrics(ruined)


@pytest.mark.parametrize("step", [0, 3])
def test_ctrl_c_in_a_validation_ends_with_130_though_no_step_is_played_after_it(
    world: Path, ruined: Path, tmp_path: Path, step: int
) -> None:
    """Without the last validation no weights are chosen; steps that are recorded would go on after the first."""
    run, replayed = tmp_path / "run", f"debug.replay={ruined / 'rollouts'}"
    process = _start(examined(world, run, replayed), _asked_to_stop_in_validation(step))
    process.join(60)
    assert process.exitcode == 130
    assert [path.name for path in checkpoints(run)][-1] == f"step-{step:06d}"
    assert not (run / "model").exists()
    _resume(run)
    assert [line["validation/success"] for line in metrics(run) if "validation/success" in line] == [
        line["validation/success"] for line in metrics(ruined) if "validation/success" in line
    ]
    assert weights(run / "model") == weights(ruined / "model")


def test_a_run_does_not_go_on_with_other_questions_or_settings(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    rows = tmp_path / "rows.jsonl"
    shutil.copy(world / "rows.jsonl", rows)
    mine = (f'data.sources=[{{data="{rows}"}}]', "steps=1")
    settings = config(world, run, *mine)
    train_rl(settings)
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[:5]))
    with pytest.raises(UserError, match="questions have changed"):
        _resume(run)
    shutil.rmtree(run / "checkpoints")  # killed before its first one, with a step that was recorded
    with pytest.raises(UserError, match="is not in the data any more"):
        _resume(run)
    check_same_run(
        settings, config(world, run, f'data.sources=[{{data="{rows}"}}]', "steps=1", "save.every=7"), run, FREE
    )
    with pytest.raises(UserError, match=r"algorithm\.beta was 0\.0 and is now 0\.5"):
        check_same_run(settings, config(world, run, *mine, "algorithm.beta=0.5"), run, FREE)
