"""Checkpoints and best weights that something has happened to since they were written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from vlagent.errors import UserError
from vlagent.files import write_json
from vlagent.train.checkpoint import last_position, write_checkpoint
from vlagent.train.rl.checkpoint import RlPosition, drop_old_best, read_best, write_best


class Model(nn.Module):
    """One weight and its optimizer, which has taken a step."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.optimizer = torch.optim.AdamW([self.weight])
        self.weight.sum().backward()
        self.optimizer.step()


def resumed(run: Path, model: Model | None = None) -> RlPosition | None:
    made = model or Model()
    return last_position(run, made, made.optimizer, RlPosition(rows_digest="d"), "questions")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """With checkpoints of steps 1 and 2, and the best weights of step 1."""
    model = Model()
    write_best(tmp_path, model, 1)
    for step in (1, 2):
        write_checkpoint(tmp_path, model, model.optimizer, RlPosition(step=step, rows_digest="d", best_step=1), keep=2)
    return tmp_path


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


HARMS: list[Callable[[Path], object]] = [
    half,
    Path.unlink,
    lambda file: file.write_bytes(b""),
    lambda file: file.write_bytes(b"[1]\n"),
    lambda file: torch.save([1], file),
    lambda file: torch.save({"state": {}}, file),
]


@pytest.mark.parametrize("name", ["trained.safetensors", "optimizer.pt", "state.json"])
@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_serves(
    run: Path, name: str, harm: Callable[[Path], object]
) -> None:
    found = resumed(run)
    assert found is not None
    assert found.step == 2
    harm(run / "checkpoints" / "step-000002" / name)
    with pytest.raises(UserError, match="step-000002") as caught:
        resumed(run)
    assert "\n" not in str(caught.value)
    shutil.rmtree(run / "checkpoints" / "step-000002")
    found = resumed(run)
    assert found is not None
    assert found.step == 1


def test_a_state_of_another_kind_of_run_is_named(run: Path) -> None:
    file = run / "checkpoints" / "step-000002" / "state.json"
    write_json(file, json.loads(file.read_text()) | {"epoch": 3})
    with pytest.raises(UserError, match="step-000002: damaged"):
        resumed(run)


def test_weights_of_another_size_are_another_model(run: Path) -> None:
    with pytest.raises(UserError, match=r"weight is \(3,\), this run trains \(4,\): another model"):
        resumed(run, Model(4))


def test_moments_and_place_come_back(run: Path) -> None:
    model = Model()
    model.optimizer = torch.optim.AdamW([model.weight])
    assert resumed(run, model) == RlPosition(step=2, rows_digest="d", best_step=1)
    moments = model.optimizer.state[model.weight]
    assert moments["step"] == 1
    assert moments["exp_avg"].tolist() == pytest.approx([0.1] * 3)


@pytest.mark.parametrize("harm", HARMS[:4])
def test_best_weights_that_are_damaged_are_named(run: Path, harm: Callable[[Path], object]) -> None:
    file = run / "checkpoints" / "best-000001" / "trained.safetensors"
    harm(file)
    with pytest.raises(UserError, match="the last ones are in"):
        read_best(run, Model(), 1)


def test_best_weights_of_another_model_are_named(run: Path) -> None:
    file = run / "checkpoints" / "best-000001" / "trained.safetensors"
    with pytest.raises(UserError, match="another model"):
        read_best(run, Model(4), 1)
    save_file({"other": load_file(file)["weight"]}, file)
    with pytest.raises(UserError, match="weight is missing"):
        read_best(run, Model(), 1)


def test_best_weights_stay_while_a_checkpoint_speaks_of_them_and_a_copy_is_nobodys(run: Path) -> None:
    write_best(run, Model(), 2)
    (run / "checkpoints" / "best-000001 (copy)").mkdir()
    drop_old_best(run)
    assert sorted(path.name for path in run.glob("checkpoints/best-*")) == ["best-000001", "best-000001 (copy)"]
