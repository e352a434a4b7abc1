"""Checkpoints that a kill at any moment cannot harm: written beside, then renamed.

    RUN/checkpoints/step-000100/trained.safetensors    the trained weights, by name
    RUN/checkpoints/step-000100/optimizer.pt           the optimizer's state
    RUN/checkpoints/step-000100/state.json             where the run is

Random numbers need no state of their own: order, dropout and sampling are drawn from keys (seed, epoch, step).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from struct import error as StructError
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from vlagent.errors import UserError
from vlagent.files import read_json, write_json
from vlagent.train.parts import trainable
from vlagent.train.whole import whole_folder
from vlagent.types import Record

_NAME = re.compile(r"step-(\d+)")


class Position(Record):
    """Where a run is."""

    step: int = 0
    """Steps that are done."""
    rows_digest: str = ""
    """Of the rows that it trains on: a run does not go on with others."""
    seen_tokens: int = 0
    seen_rows: int = 0


P = TypeVar("P", bound=Position)


def write_checkpoint(run: Path, model: nn.Module, optimizer: Any, position: Position, keep: int) -> Path:
    """Write one and remove the oldest beyond `keep`. A reader sees a whole checkpoint or none."""
    folder = run / "checkpoints" / f"step-{position.step:06d}"
    with whole_folder(folder) as partial:
        save_weights(model, partial / "trained.safetensors")
        torch.save(optimizer.state_dict(), partial / "optimizer.pt")
        write_json(partial / "state.json", position)
    for old in checkpoints(run)[:-keep]:
        shutil.rmtree(old)
    return folder


def save_weights(model: nn.Module, file: Path) -> None:
    """The trained weights, by name."""
    save_file({name: weight.detach().contiguous().cpu() for name, weight in trainable(model).items()}, file)


def checkpoints(run: Path) -> list[Path]:
    """The whole checkpoints of a run, oldest first."""
    folder = run / "checkpoints"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in found if _NAME.fullmatch(path.name))


def read_checkpoint(folder: Path, model: nn.Module, optimizer: Any, kind: type[P]) -> P:
    """Put weights and optimizer back. Raises `UserError` where the checkpoint is damaged or of other weights."""
    mine = trainable(model)
    try:
        saved = load_file(folder / "trained.safetensors")
        moments = torch.load(folder / "optimizer.pt", map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, UnpicklingError, StructError, SafetensorError) as error:
        raise _damaged(folder, error) from None
    if saved.keys() != mine.keys():
        raise UserError(f"{folder}: holds {len(saved)} trained weights, this run trains {len(mine)}: another model")
    put_weights(saved, mine, folder)
    try:
        optimizer.load_state_dict(moments)
        return kind.model_validate(read_json(folder / "state.json"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # pydantic's is a ValueError
        raise _damaged(folder, error) from None


def _damaged(folder: Path, error: Exception) -> UserError:
    reason = str(error).split("\n")[0][:120]
    return UserError(f"{folder}: damaged ({reason}); remove it, and the run goes on from the one before")


def put_weights(saved: Mapping[str, Tensor], mine: Mapping[str, Tensor], folder: Path) -> None:
    """Copy weights by name. Raises `UserError` where they are of another model."""
    for name, weight in mine.items():
        found = tuple(saved[name].shape) if name in saved else "missing"
        if found != tuple(weight.shape):
            raise UserError(f"{folder}: {name} is {found}, this run trains {tuple(weight.shape)}: another model")
    with torch.no_grad():
        for name, weight in mine.items():
            weight.copy_(saved[name])


def last_position(run: Path, model: nn.Module, optimizer: Any, fresh: P, trained_on: str) -> P | None:
    """Put the last whole checkpoint back; where it was, or None where there is none.

    Raises `UserError` where what the run is `trained_on` is no longer what `fresh` says.
    """
    saved = checkpoints(run)
    if not saved:
        return None
    position = read_checkpoint(saved[-1], model, optimizer, type(fresh))
    if position.rows_digest != fresh.rows_digest:
        raise UserError(f"{run}: its {trained_on} have changed since it began; start another run")
    return position


def drop_leftovers(run: Path) -> None:
    """Remove what a kill in mid-write left."""
    folder = run / "checkpoints"
    for path in folder.glob(".*.partial") if folder.is_dir() else ():
        shutil.rmtree(path, ignore_errors=True)
