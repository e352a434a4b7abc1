"""What is used of TRL's trainer, and the check that the installed TRL is the one that this was written for.

TRL (with transformers' Trainer below it) brings the processes, the wrapped model, gradient clipping, mixed precision
and the loop over optimizer steps. It computes no advantage, ratio, clip or KL here: `trainer.py` overrides all that
would. Nothing else in this package imports trl.
"""

from __future__ import annotations

import inspect
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from vlagent.errors import UserError
from vlagent.train.config import ModelConfig

SERIES = "1.16"
OVERRIDDEN = {
    "_generate_and_score_completions": ("self", "inputs"),
    "_compute_loss": ("self", "model", "inputs"),
    "_prepare_inputs": ("self", "generation_batch"),
    "training_step": ("self", "model", "inputs", "num_items_in_batch"),
    "get_train_dataloader": ("self",),
    "floating_point_ops": ("self", "inputs"),
    "log": ("self", "logs", "start_time"),
}
"""Methods that we replace, with the parameters that they are called with."""


def check_version(installed: str) -> None:
    """`UserError` where it is another TRL."""
    if installed != SERIES and not installed.startswith(f"{SERIES}."):
        raise UserError(
            f"trl {installed} is installed and vlagent's trainer is written for trl {SERIES}: "
            f"pip install 'trl>={SERIES},<{_next(SERIES)}'"
        )


def check_methods(trainer: type[Any]) -> None:
    """`UserError` where a method that we replace is gone or is called in another way."""
    for name, wanted in OVERRIDDEN.items():
        method = getattr(trainer, name, None)
        found = None if method is None else tuple(inspect.signature(method).parameters)
        if found != wanted:
            what = "is gone" if found is None else f"takes {', '.join(found)}"
            raise UserError(f"trl's GRPOTrainer.{name} {what}, {', '.join(wanted)} are expected: install trl {SERIES}")


def base_trainer() -> type[Any]:
    """TRL's `GRPOTrainer`, checked. Raises `UserError` for another TRL."""
    try:
        check_version(version("trl"))
    except PackageNotFoundError:
        raise UserError("rl needs trl: pip install 'vlagent[train]'") from None
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    from trl import GRPOTrainer

    check_methods(GRPOTrainer)
    return GRPOTrainer  # type: ignore[no-any-return]


def trainer_arguments(model: ModelConfig, folder: Path, updates: int, clip: float, seed: int) -> Any:
    """TRL's settings: everything that we do ourselves is off, and batch and group sizes are of no consequence."""
    from accelerate import PartialState
    from trl import GRPOConfig

    cpu = model.device == "cpu"
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=updates,
        max_grad_norm=clip,
        seed=seed,
        use_cpu=cpu,
        ddp_backend="gloo" if cpu and PartialState().num_processes > 1 else None,
        bf16=model.mixed_precision == "bf16",
        fp16=False,
        ddp_find_unused_parameters="vision" not in model.freeze,
        per_device_train_batch_size=2,
        num_generations=2,
        gradient_accumulation_steps=1,
        gradient_checkpointing=None,
        beta=0.0,
        remove_unused_columns=False,
        save_strategy="no",
        eval_strategy="no",
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
    )


def _next(series: str) -> str:
    major, minor = series.split(".")
    return f"{major}.{int(minor) + 1}"
