"""The tiny models that come inside the package: small enough to ship, real enough to show the whole recipe."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vlagent.agent.config import AgentConfig
from vlagent.chat.base import ChatModel
from vlagent.errors import UserError, first_problem
from vlagent.files import read_json

CHECKPOINTS = Path(str(files("vlagent"))) / "checkpoints"
DEFAULT = "rl"
"""The end of the recipe, fine-tuned and then reinforced: what `ask`, `eval` and `demo` use without a model."""
SETTINGS = "agent.json"
"""Beside the weights: how episodes have to run for this model (an `AgentConfig`)."""
PREFIX = "shipped:"
LOCAL = "local:"


def has_torch() -> bool:
    """Whether the extra [train] is installed, which models in this process need."""
    return importlib.util.find_spec("torch") is not None and importlib.util.find_spec("transformers") is not None


def shipped() -> tuple[str, ...]:
    """Names of the checkpoints in this package."""
    if not CHECKPOINTS.is_dir():
        return ()
    return tuple(sorted(path.name for path in CHECKPOINTS.iterdir() if (path / "config.json").exists()))


def default_model() -> str | None:
    """`shipped:rl`, or None where it cannot run here."""
    return f"{PREFIX}{DEFAULT}" if has_torch() and DEFAULT in shipped() else None


def is_local(name: str | None) -> bool:
    """Whether a model name means a checkpoint in this process."""
    return bool(name) and str(name).startswith((PREFIX, LOCAL))


def folder_of(name: str) -> Path:
    """The checkpoint folder of `shipped:NAME` or `local:FOLDER`."""
    if name.startswith(PREFIX):
        found = name.removeprefix(PREFIX)
        if found not in shipped():
            raise UserError(f"model {name!r}: shipped are {', '.join(PREFIX + each for each in shipped()) or 'none'}")
        return CHECKPOINTS / found
    folder = Path(name.removeprefix(LOCAL)).expanduser()
    if not (folder / "config.json").exists():
        raise UserError(f"model {name!r}: {folder} holds no config.json; give the folder of a checkpoint")
    return folder


def settings_of(name: str | None, workflow: str = "agent") -> dict[str, Any]:
    """The agent settings that a checkpoint in this process brings; nothing for any other model.

    Its prompts name its tools, so they are left out where a workflow gives it none.
    """
    if not is_local(name):
        return {}
    path = folder_of(str(name)) / SETTINGS
    table: dict[str, Any] = read_json(path) if path.exists() else {}
    try:
        AgentConfig.model_validate(table)
    except ValidationError as error:
        said = first_problem(error).line("all of it")
        raise UserError(f"{path}: {said}; mend it, or remove the file") from None
    if workflow != "agent":
        table.pop("prompts", None)
    return table


def open_checkpoint(name: str) -> ChatModel:
    """A model over a checkpoint in this process; close it when done."""
    if not has_torch():
        raise UserError(f"model {name!r} runs in this process and needs torch: pip install 'vlagent[train]'")
    from vlagent.model.local_chat import open_local

    return open_local(folder_of(name))
