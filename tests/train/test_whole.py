from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from vlagent.errors import PermanentError, UserError
from vlagent.model.load import load_policy
from vlagent.train.checkpoint import Position, checkpoints, read_checkpoint, write_checkpoint
from vlagent.train.config import OptimConfig
from vlagent.train.parts import export
from vlagent.train.sft import make_optimizer
from vlagent.train.whole import whole_folder


@pytest.fixture(scope="module")
def trained(tiny: Path) -> tuple[Any, Any]:
    """A policy and an optimizer that has done a step."""
    policy = load_policy(tiny)
    optimizer = make_optimizer(policy.model, OptimConfig())
    for weight in policy.model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    return policy, optimizer


@contextmanager
def _full_disk(room: int) -> Iterator[None]:
    """No file can grow beyond `room` bytes: the writers meet what they meet on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [50_000, 230_000, 260_000, 300_000, 380_000])
def test_a_full_disk_is_a_service_error_and_the_checkpoint_before_stays(
    room: int, trained: tuple[Any, Any], tmp_path: Path
) -> None:
    policy, optimizer = trained
    write_checkpoint(tmp_path, policy.model, optimizer, Position(step=1), keep=1)
    with _full_disk(room), pytest.raises(PermanentError, match=r"^disk: .*step-000002 cannot be written"):
        write_checkpoint(tmp_path, policy.model, optimizer, Position(step=2), keep=1)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000001"]
    assert read_checkpoint(checkpoints(tmp_path)[0], policy.model, optimizer, Position).step == 1


def test_an_export_that_does_not_fit_leaves_the_old_one(trained: tuple[Any, Any], tmp_path: Path) -> None:
    policy, _ = trained
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "old").write_text("x")
    with _full_disk(50_000), pytest.raises(PermanentError, match=r"^disk: .*model cannot be written"):
        export(policy, tmp_path / "model", None)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["model", "model/old"]


@pytest.mark.parametrize("name", ["trained.safetensors", "optimizer.pt", "state.json"])
@pytest.mark.parametrize("left", [0, 4, 200])
def test_a_damaged_checkpoint_is_the_users_error(
    name: str, left: int, trained: tuple[Any, Any], tmp_path: Path
) -> None:
    policy, optimizer = trained
    folder = write_checkpoint(tmp_path, policy.model, optimizer, Position(step=1, rows_digest="d" * 300), keep=1)
    (folder / name).write_bytes((folder / name).read_bytes()[:left])
    with pytest.raises(UserError) as error:
        read_checkpoint(folder, policy.model, optimizer, Position)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)


def test_the_writer_of_torch_names_a_full_disk_in_several_ways(tmp_path: Path) -> None:
    said = "[enforce fail at inline_container.cc:672] . unexpected pos 61120 vs 61008"
    with pytest.raises(PermanentError, match="unexpected pos"), whole_folder(tmp_path / "x"):
        raise RuntimeError(said)
    with pytest.raises(RuntimeError, match="a bug"), whole_folder(tmp_path / "x"):
        raise RuntimeError("a bug")
    assert not list(tmp_path.iterdir())
