"""Where a run of reinforcement learning is, and the weights that did best in validation so far.

    RUN/checkpoints/step-000020/                           as in fine-tuning (train.checkpoint)
    RUN/checkpoints/best-000010/trained.safetensors        the trained weights after step 10
    RUN/rollouts/step-000012/                              a step's episodes (rl.recorded), before its update

A kill at any moment leaves whole folders only. Best weights stay as long as any checkpoint speaks of them, so a resumed
run finds those that it knew of.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from vlagent.errors import UserError
from vlagent.files import read_json
from vlagent.train.checkpoint import Position, checkpoints, put_weights, save_weights
from vlagent.train.parts import trainable
from vlagent.train.rl.recorded import recorded_steps, step_folder
from vlagent.train.whole import whole_folder

ROLLOUTS = "rollouts"
_BEST = re.compile(r"best-(\d+)")
DROPPED = "rollouts_dropped"
"""Groups that dynamic sampling replaced: they are measured, not trained on."""


class RlPosition(Position):
    """Where a run is."""

    skipped: int = 0
    """Optimizer steps that no group taught anything for."""
    episodes: int = 0
    best_step: int | None = None
    best_success: float | None = None
    last_success: float | None = None


def write_best(run: Path, model: nn.Module, step: int) -> None:
    """Keep the trained weights of this moment as the best so far."""
    with whole_folder(_best_folder(run, step)) as partial:
        save_weights(model, partial / "trained.safetensors")


def read_best(run: Path, model: nn.Module, step: int) -> None:
    """Put the best weights into the model. Raises `UserError` where they are damaged or gone."""
    folder = _best_folder(run, step)
    try:
        saved = load_file(folder / "trained.safetensors")
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"{folder}: the best weights cannot be read ({error}); the last ones are in {run}/last"
        ) from None
    put_weights(saved, trainable(model), folder)


def drop_old_best(run: Path) -> None:
    """Remove best weights that no checkpoint speaks of any more."""
    wanted = {read_json(folder / "state.json").get("best_step") for folder in checkpoints(run)}
    for folder in (run / "checkpoints").glob("best-*"):
        name = _BEST.fullmatch(folder.name)
        if name and int(name[1]) not in wanted:
            shutil.rmtree(folder)


def drop_old_rollouts(run: Path, step: int, keep: int | None) -> None:
    """Remove recorded steps beyond the last `keep` before `step`."""
    if keep is not None:
        for folder in (run / ROLLOUTS, run / DROPPED):
            for old in recorded_steps(folder):
                if old < step - keep:
                    shutil.rmtree(step_folder(folder, old))


def _best_folder(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"best-{step:06d}"
