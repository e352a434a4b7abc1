"""A step's groups on disk: what a killed run goes on from, what is trained on again, what processes are compared on.

    FOLDER/step-000012/
        samples.jsonl         one `Sample` a group
        trajectories.jsonl    one `Trajectory` an episode, group after group
        rows.jsonl            one `EvalRow` an episode, in the same order: outcome and reward
        tokens.safetensors    ids int64 [T], logprobs float32 [T], turns int64 [N, 3]
        groups.json           step and episodes of each group

T = tokens of all turns, N = turns that have tokens; a row of `turns` is (episode, turn, tokens), negative tokens for a
turn without log-probabilities. The folder appears as a whole or not at all, whenever the process is killed.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeInt, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load, save

from vlagent.errors import UserError, first_problem
from vlagent.files import read_json, read_records, write_atomic, write_json, write_records
from vlagent.train.rl.rewards import trained_reward
from vlagent.types import EvalRow, Group, Record, Sample, Tokens, Trajectory

_NAME = re.compile(r"step-(\d{6,})")


class GroupsIndex(Record):
    """What a step's folder holds."""

    version: int = 1
    step: int
    sizes: tuple[NonNegativeInt, ...]
    """Episodes of each group."""


def step_folder(folder: Path, step: int) -> Path:
    """Where the groups of a step lie."""
    return folder / f"step-{step:06d}"


def recorded_steps(folder: Path) -> list[int]:
    """The steps that a folder holds, in order."""
    found = [_NAME.fullmatch(path.name) for path in folder.glob("step-*") if path.is_dir()]
    return sorted(int(name[1]) for name in found if name)


def write_groups(folder: Path, step: int, groups: Sequence[Group]) -> Path:
    """Keep a step's groups; an earlier record of the step is replaced. Raises like `files.write_atomic`."""
    target = step_folder(folder, step)
    new = folder / f".{target.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    played = [trajectory for group in groups for trajectory in group.trajectories]
    write_records(new / "samples.jsonl", [group.sample for group in groups])
    write_records(new / "trajectories.jsonl", played)
    write_records(new / "rows.jsonl", [row for group in groups for row in group.rows])
    write_atomic(new / "tokens.safetensors", save(_tensors(played)))
    write_json(new / "groups.json", GroupsIndex(step=step, sizes=tuple(len(group.trajectories) for group in groups)))
    _put_in_place(new, target)
    return target


def read_groups(folder: Path, step: int) -> list[Group]:
    """The groups of a step as they were written. `UserError` where there are none, or they are damaged."""
    place = step_folder(folder, step)
    index = _index(place, step)
    samples = list(read_records(place / "samples.jsonl", Sample))
    rows = list(read_records(place / "rows.jsonl", EvalRow))
    played = list(read_records(place / "trajectories.jsonl", Trajectory))
    if not (len(samples) == len(index.sizes) and len(rows) == len(played) == sum(index.sizes)):
        raise UserError(
            f"{place}: groups.json speaks of {sum(index.sizes)} episodes, {len(played)} are there; remove it"
        )
    played = _with_tokens(played, place / "tokens.safetensors")
    groups, first = [], 0
    for sample, size in zip(samples, index.sizes, strict=True):
        mine = slice(first, first + size)
        named = {trajectory.sample_id for trajectory in played[mine]} | {row.sample_id for row in rows[mine]}
        if named - {sample.id}:
            raise UserError(f"{place}: question {sample.id!r} has episodes of another one; remove it")
        groups.append(Group(sample, played[mine], [trained_reward(row) for row in rows[mine]], rows[mine]))
        first += size
    return groups


def _index(place: Path, step: int) -> GroupsIndex:
    try:
        index = GroupsIndex.model_validate(read_json(place / "groups.json"))
    except ValidationError as error:
        said = first_problem(error).said
        raise UserError(f"{place / 'groups.json'}: no index of a step ({said}); remove {place}") from None
    if index.step != step:
        raise UserError(f"{place}: holds the episodes of step {index.step}; remove it")
    return index


def _put_in_place(new: Path, target: Path) -> None:
    """A rename is whole: a kill between the two leaves no step, never a torn one."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        target.rename(old)
    new.rename(target)
    shutil.rmtree(old, ignore_errors=True)
    handle = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _turns_with_tokens(played: Sequence[Trajectory]) -> Iterator[tuple[int, int, Tokens]]:
    for episode, trajectory in enumerate(played):
        for number, turn in enumerate(trajectory.turns):
            if turn.tokens is not None:
                yield episode, number, turn.tokens


def _tensors(played: Sequence[Trajectory]) -> dict[str, np.ndarray[Any, Any]]:
    ids, logprobs, turns = [np.empty(0, np.int64)], [np.empty(0, np.float32)], []
    for episode, number, tokens in _turns_with_tokens(played):
        known = tokens.logprobs is not None
        turns.append((episode, number, len(tokens.ids) if known else -len(tokens.ids)))
        ids.append(np.asarray(tokens.ids, np.int64))
        logprobs.append(np.asarray(tokens.logprobs, np.float32) if known else np.zeros(len(tokens.ids), np.float32))
    table = np.asarray(turns, np.int64).reshape(-1, 3)
    return {"ids": np.concatenate(ids), "logprobs": np.concatenate(logprobs), "turns": table}


def _with_tokens(played: list[Trajectory], path: Path) -> list[Trajectory]:
    try:
        tensors = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: not the tokens of a step ({error}); remove {path.parent}") from None
    turns = [list(trajectory.turns) for trajectory in played]
    if not _fit(tensors, [len(mine) for mine in turns]):
        raise UserError(f"{path}: not the tokens of these episodes; remove {path.parent}")
    at = 0
    for episode, number, length in tensors["turns"].tolist():
        mine = slice(at, at + abs(length))
        at += abs(length)
        tokens = Tokens(tensors["ids"][mine], tensors["logprobs"][mine] if length >= 0 else None)
        turns[episode][number] = turns[episode][number].model_copy(update={"tokens": tokens})
    return [
        trajectory.model_copy(update={"turns": tuple(mine)}) for trajectory, mine in zip(played, turns, strict=True)
    ]


def _fit(tensors: Mapping[str, np.ndarray[Any, Any]], turns: Sequence[int]) -> bool:
    """Whether the tensors are whole and speak of no other turns than there are, `turns` of each episode."""
    shapes = {name: tensors[name].shape for name in ("ids", "logprobs", "turns") if name in tensors}
    if len(shapes) < 3 or len(shapes["ids"]) != 1 or shapes["logprobs"] != shapes["ids"] or shapes["turns"][1:] != (3,):
        return False
    told = tensors["turns"].tolist()
    there = all(0 <= episode < len(turns) and 0 <= number < turns[episode] for episode, number, _ in told)
    return there and sum(abs(length) for *_, length in told) == shapes["ids"][0]
