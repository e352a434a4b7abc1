from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.model.load import load_policy
from vlagent.train import checkpoint
from vlagent.train.config import SftConfig
from vlagent.train.folder import SftSummary, read_sft_config
from vlagent.train.parts import part_of
from vlagent.train.sft import train_sft

TIMED = ("rows_per_s", "tokens_per_s")


def _config(tiny: Path, data: Path, run: Path, *changes: str) -> SftConfig:
    table: dict[str, Any] = {
        "run": str(run),
        "epochs": 2,
        "model": {"path": str(tiny), "device": "cpu", "threads": 1},
        "sources": [{"run": str(data)}],
        "batch": {"rows": 4, "micro_rows": 2},
        "optim": {"lr": 3e-3},
        "save": {"every": 2},
    }
    return make_config(SftConfig, table, list(changes))


def _train(tiny: Path, data: Path, run: Path, *changes: str) -> SftSummary:
    return train_sft(_config(tiny, data, run, *changes))


def _metrics(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMED} for line in lines]


def _weights(folder: Path) -> dict[str, str]:
    """Parameter -> digest of its bytes."""
    model = load_policy(folder).model
    return {n: hashlib.sha256(w.detach().numpy().tobytes()).hexdigest() for n, w in model.named_parameters()}


def _changed(before: Path, after: Path) -> set[str]:
    old, new = _weights(before), _weights(after)
    assert old.keys() == new.keys()
    return {part_of(name) for name in old if old[name] != new[name]}


def test_the_loss_falls_and_the_export_is_what_was_trained(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    summary = _train(tiny, demo_run, tmp_path / "run", "epochs=6")
    losses = [line["loss"] for line in _metrics(tmp_path / "run")]
    assert len(losses) == summary.steps == 18
    assert losses[-1] < losses[0] - 1.0
    assert summary.rows == 72
    again = _train(Path(str(summary.model)), demo_run, tmp_path / "again", "max_steps=1", "optim.lr=1e-9")
    assert again.loss == pytest.approx(losses[-1], abs=0.3)


@pytest.mark.parametrize(
    ("freeze", "changed"),
    [
        ('["vision", "projector"]', {"language"}),
        ('["language"]', {"vision", "projector"}),
        ('["vision"]', {"projector", "language"}),
    ],
)
def test_frozen_parts_stay_the_same_to_the_bit(
    tiny: Path, demo_run: Path, tmp_path: Path, freeze: str, changed: set[str]
) -> None:
    changes = (f"model.freeze={freeze}", "optim.weight_decay=0.1", "max_steps=2")
    summary = _train(tiny, demo_run, tmp_path / "run", *changes)
    assert _changed(tiny, Path(str(summary.model))) == changed


def test_a_step_does_not_depend_on_how_it_is_cut(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    for name, rows in (("a", 1), ("b", 4)):
        _train(tiny, demo_run, tmp_path / name, f"batch.micro_rows={rows}", "max_steps=3")
    for a, b in zip(_metrics(tmp_path / "a"), _metrics(tmp_path / "b"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)


def test_the_loss_is_the_mean_over_own_tokens_weighted_by_source(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    from vlagent.train.batch import make_micro
    from vlagent.train.config import SourceConfig
    from vlagent.train.rows import read_rows

    policy = load_policy(tiny)
    rows = read_rows(SourceConfig(run=str(demo_run)), policy.processor.renderer, policy.processor.limits, 9999).rows
    total = count = 0.0
    for i, row in enumerate(rows):
        batch = make_micro([row], policy.processor).batch
        with torch.no_grad():
            logits = policy.model(
                input_ids=batch.input_ids,
                position_ids=batch.position_ids,
                pixel_values=batch.pixel_values,
                image_grid_thw=batch.image_grid_thw,
            ).logits[0]
        logits[:, list(policy.processor.vocabulary.banned)] = -torch.inf
        nll = torch.nn.functional.cross_entropy(logits[:-1], batch.input_ids[0, 1:], reduction="none")
        weight = 3.0 if i < 2 else 1.0
        total += weight * float(nll[batch.own[0, 1:]].sum())
        count += weight * row.mask.sum()
    light, heavy = f'{{run = "{demo_run}"}}', f'{{run = "{demo_run}", limit = 2, weight = 2.0}}'
    summary = _train(tiny, demo_run, tmp_path / "run", f"sources=[{light}, {heavy}]", "batch.rows=14", "max_steps=1")
    assert summary.loss == pytest.approx(total / count, rel=1e-5)


def test_gradient_checkpointing_changes_nothing_but_memory(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    for name in ("false", "true"):
        _train(tiny, demo_run, tmp_path / name, f"model.gradient_checkpointing={name}", "max_steps=2")
    for a, b in zip(_metrics(tmp_path / "false"), _metrics(tmp_path / "true"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)


def test_each_setting_of_the_optimizer_and_the_order_changes_the_result(
    tiny: Path, demo_run: Path, tmp_path: Path
) -> None:
    settings = {
        "plain": "epochs=2",
        "seed": "seed=1",
        "lr": "optim.lr=1e-4",
        "schedule": 'optim.schedule="constant"',
        "warmup": "optim.warmup=0.5",
        "clip": "optim.clip=0.01",
        "decay": "optim.weight_decay=0.5",
        "betas": "optim.betas=[0.5, 0.9]",
        "buckets": "batch.bucket_steps=3",
        "rows": "batch.rows=3",
    }
    losses = {}
    for name, change in settings.items():
        losses[name] = _train(tiny, demo_run, tmp_path / name, change, "max_steps=4").loss
    assert len(set(losses.values())) == len(settings), losses


def test_adapters_train_alone_and_the_merged_export_loads_plainly(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    summary = _train(tiny, demo_run, tmp_path / "run", "model.lora={rank = 4, alpha = 16}", "epochs=3", "optim.lr=1e-2")
    losses = [line["loss"] for line in _metrics(tmp_path / "run")]
    assert losses[-1] < losses[0] - 0.1
    merged = Path(str(summary.model))
    assert (merged / "adapter" / "adapter_model.safetensors").is_file()
    old, new = _weights(tiny), _weights(merged)
    moved = {name.rsplit(".", 2)[-2] for name in old if old[name] != new[name]}
    assert moved == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    again = _train(merged, demo_run, tmp_path / "again", "max_steps=1", "optim.lr=1e-9", "batch.rows=12")
    assert again.loss == pytest.approx(losses[-1], abs=0.3)
    with pytest.raises(UserError, match=r"model\.lora\.targets"):
        _train(tiny, demo_run, tmp_path / "none", 'model.lora={targets = ["nothing"]}')


def _as_row(sample: dict[str, Any]) -> dict[str, Any]:
    prompt = [{"role": "user", "content": f"<image>{sample['question']}"}]
    truth = {"ground_truth": sample["answers"][0]}
    return {"prompt": prompt, "image": sample["images"][0]["path"], "reward_model": truth}


def test_validation_measures_loss_and_success_in_the_real_loop(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    samples = [json.loads(line) for line in (demo_run / "samples.jsonl").read_text().splitlines()][:3]
    rows.write_text("".join(json.dumps(_as_row(sample)) + "\n" for sample in samples))
    agent = 'workflow = "direct", max_tokens_turn = 6, pixels = {factor = 16, min_pixels = 4608, max_pixels = 9216}'
    changes = (
        f'validation.data="{rows}"',
        f'validation.sources=[{{run = "{demo_run}"}}]',
        "validation.every=2",
        f"validation.agent={{{agent}}}",
    )
    summary = _train(tiny, demo_run, tmp_path / "run", *changes, "max_steps=3")
    checks = [line for line in _metrics(tmp_path / "run") if "validation_loss" in line]
    assert [line["step"] for line in checks] == [2, 3]
    assert [line["success_scored"] for line in checks] == [3, 3]
    assert checks[1]["validation_loss"] < checks[0]["validation_loss"]
    assert summary.success == 0.0
    assert len((tmp_path / "run/validation/step-000003/trajectories.jsonl").read_text().splitlines()) == 3


def test_bfloat16_weights_learn_and_resume_to_the_same_bits(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    changes = ("model.dtype=bfloat16", "epochs=4", "save.every=4", "save.keep=9")
    summary = _train(tiny, demo_run, tmp_path / "run", *changes)
    losses = [line["loss"] for line in _metrics(tmp_path / "run")]
    assert losses[-1] < losses[0] - 0.5
    before, weights = _metrics(tmp_path / "run"), _weights(Path(str(summary.model)))
    for step in ("000012", "000008"):
        shutil.rmtree(tmp_path / "run" / "checkpoints" / f"step-{step}")
    train_sft(read_sft_config(tmp_path / "run"), resume=True)
    assert (_metrics(tmp_path / "run"), _weights(Path(str(summary.model)))) == (before, weights)


def test_only_the_newest_checkpoints_are_kept(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    _train(tiny, demo_run, tmp_path / "run", "save.every=1", "save.keep=2", "max_steps=4")
    assert [path.name for path in checkpoint.checkpoints(tmp_path / "run")] == ["step-000003", "step-000004"]


# --- killed and resumed -------------------------------------------------------------------------------------------


def _child(config: SftConfig, die_in_write: bool) -> None:
    if die_in_write:
        write = torch.save

        def torn(state: Any, path: Path) -> None:
            write(state, path)
            if path.parent.name.startswith(".step-000004"):
                path.write_bytes(path.read_bytes()[:100])
                os.kill(os.getpid(), signal.SIGKILL)

        checkpoint.torch.save = torn  # type: ignore[attr-defined]
    train_sft(config)


def _start(config: SftConfig, die_in_write: bool = False) -> Any:
    """The run in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=_child, args=(config, die_in_write))
    process.start()
    return process


def _wait_for_steps(run: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if (run / "metrics.jsonl").exists() and len(_metrics(run)) >= count:
            return
        time.sleep(0.005)
    raise AssertionError("the run did not get that far")


@pytest.fixture(scope="module")
def whole(tiny: Path, demo_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbs."""
    run = tmp_path_factory.mktemp("whole") / "run"
    _train(tiny, demo_run, run, "epochs=4", "model.lora.dropout=0.1")
    return run


def _check_same(run: Path, whole: Path) -> None:
    assert _metrics(run) == _metrics(whole)
    assert _weights(run / "model") == _weights(whole / "model")


@pytest.mark.parametrize("die_in_write", [False, True])
def test_a_killed_run_resumes_to_the_same_bits(
    tiny: Path, demo_run: Path, whole: Path, tmp_path: Path, die_in_write: bool
) -> None:
    run = tmp_path / "run"
    process = _start(_config(tiny, demo_run, run, "epochs=4", "model.lora.dropout=0.1"), die_in_write)
    if not die_in_write:
        _wait_for_steps(run, 5)
        process.kill()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    if die_in_write:
        assert [p.name for p in checkpoint.checkpoints(run)] == ["step-000002"]
        assert (run / "checkpoints" / ".step-000004.partial").is_dir()
    assert not (run / "model").exists()
    train_sft(read_sft_config(run), resume=True)
    _check_same(run, whole)
    assert not list((run / "checkpoints").glob(".*"))


def test_ctrl_c_leaves_a_checkpoint_to_go_on_from(tiny: Path, demo_run: Path, whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    process = _start(_config(tiny, demo_run, run, "epochs=4", "model.lora.dropout=0.1", "save.every=100"))
    _wait_for_steps(run, 3)
    os.kill(process.pid, signal.SIGINT)
    process.join(60)
    assert process.exitcode == 0
    ended = json.loads((run / "summary.json").read_text())
    assert ended["ended"] == "stopped"
    assert [p.name for p in checkpoint.checkpoints(run)] == [f"step-{ended['steps']:06d}"]
    train_sft(read_sft_config(run), resume=True)
    _check_same(run, whole)


def test_a_run_does_not_go_on_with_other_rows_or_into_a_full_folder(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = _config(tiny, demo_run, run, "max_steps=1")
    train_sft(config)
    with pytest.raises(UserError, match=r"--resume"):
        train_sft(config)
    other = make_config(SftConfig, config.model_dump(mode="json") | {"sources": [{"run": str(demo_run), "limit": 5}]})
    with pytest.raises(UserError, match="rows have changed"):
        train_sft(other, resume=True)


def test_a_loss_that_is_no_number_stops_the_run(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    config = _config(tiny, demo_run, tmp_path / "run", "optim.lr=1e30", "optim.warmup=0.0", "max_steps=4")
    with pytest.raises(UserError, match=r"lower optim\.lr"):
        train_sft(config)
