"""Trajectories on disk: readable JSON lines, and token ids and log-probabilities beside them.

    FOLDER/trajectories.jsonl          one `Trajectory` a line
    FOLDER/tokens/NAME.safetensors     one file a trajectory: `<turn>.ids` int64 [L], `<turn>.logprobs` float32 [L]

L = tokens of a turn. A kill at any moment loses at most the trajectory that was being written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vlagent.errors import UserError
from vlagent.files import append_jsonl, read_records, write_atomic
from vlagent.types import Tokens, Trajectory, Turn

TRAJECTORIES = "trajectories.jsonl"


def write_trajectory(folder: Path, trajectory: Trajectory) -> None:
    """Append a trajectory to a run folder, its tokens first, so that a record never lacks them."""
    tensors = _tensors(trajectory)
    if tensors:
        write_atomic(tokens_path(folder, trajectory), save(tensors, {"record": _digest(trajectory)}))
    append_jsonl(folder / TRAJECTORIES, trajectory)


def read_trajectories(folder: Path) -> Iterator[Trajectory]:
    """The trajectories of a run folder with their tokens; of several attempts at one episode, the last.

    A line torn by a kill is skipped. `UserError` where a line is no trajectory or a token file is damaged.
    """
    last: dict[tuple[str, int], Trajectory] = {}
    for trajectory in read_records(folder / TRAJECTORIES, Trajectory):
        key = (trajectory.sample_id, trajectory.rollout)
        last.pop(key, None)
        last[key] = trajectory
    for trajectory in last.values():
        yield _with_tokens(folder, trajectory)


def tokens_path(folder: Path, trajectory: Trajectory) -> Path:
    """The side file of a trajectory; safe and unique whatever the sample is called."""
    sample = trajectory.sample_id
    safe = re.sub(r"[^A-Za-z0-9_-]+", "_", sample)[:60]
    digest = hashlib.blake2b(sample.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return folder / "tokens" / f"{safe}-{digest}-{trajectory.rollout}.safetensors"


def _tensors(trajectory: Trajectory) -> dict[str, np.ndarray]:
    tensors: dict[str, np.ndarray] = {}
    for index, turn in enumerate(trajectory.turns):
        if turn.tokens is None:
            continue
        tensors[f"{index}.ids"] = np.ascontiguousarray(turn.tokens.ids, dtype=np.int64)
        if turn.tokens.logprobs is not None:
            tensors[f"{index}.logprobs"] = np.ascontiguousarray(turn.tokens.logprobs, dtype=np.float32)
    return tensors


def _with_tokens(folder: Path, trajectory: Trajectory) -> Trajectory:
    path = tokens_path(folder, trajectory)
    if not path.exists():
        return trajectory
    try:
        with safe_open(path, framework="numpy") as file:
            # Tokens of another attempt at the same episode, whose record a kill prevented.
            if file.metadata().get("record") != _digest(trajectory):
                return trajectory
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise UserError(f"{path}: not a token file ({error}); remove it to read the run without tokens") from None
    turns = tuple(_attach(turn, index, tensors) for index, turn in enumerate(trajectory.turns))
    return trajectory.model_copy(update={"turns": turns})


def _attach(turn: Turn, index: int, tensors: dict[str, np.ndarray]) -> Turn:
    ids = tensors.get(f"{index}.ids")
    if ids is None:
        return turn
    return turn.model_copy(update={"tokens": Tokens(ids, tensors.get(f"{index}.logprobs"))})


def _digest(trajectory: Trajectory) -> str:
    return hashlib.sha256(trajectory.model_dump_json().encode()).hexdigest()
