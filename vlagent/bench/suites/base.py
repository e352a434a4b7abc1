"""What a suite, a published layout and the files that were found for a suite are."""

from __future__ import annotations

import glob
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from vlagent.data.check import RowSet, row_sets
from vlagent.data.manifest import Warn, load_samples, read_samples
from vlagent.data.rows import Origin, Pictures, with_unique_ids
from vlagent.data.tables import keep_picture, read_parquet
from vlagent.errors import UserError
from vlagent.files import read_json
from vlagent.types import Record, Sample

Row = dict[str, Any]
Rows = Callable[[Path], Iterator[Row]]
SOURCE = re.compile(r"^\s*Layout (read from|unverified): (.*)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """One form in which a suite's files are published."""

    name: str
    files: tuple[str, ...]
    """Globs below the suite's folder; the first that matches names the file to read."""
    rows: Rows
    """File -> rows in the common layout (`prompt`, `image`, `reward_model`, `choices`)."""

    @property
    def source(self) -> str:
        """The public source that the layout was read from, as the reader's docstring names it."""
        return " ".join(self._found()[2].split()).rstrip(".")

    @property
    def verified(self) -> bool:
        """Whether that source showed the layout; otherwise it is what others say of it."""
        return self._found()[1] == "read from"

    def _found(self) -> re.Match[str]:
        found = SOURCE.search(self.rows.__doc__ or "")
        if found is None:
            raise AssertionError(f"layout {self.name}: its reader's docstring names no source")
        return found


class Hub(Record):
    """Where a suite can be fetched: rows of a split through `datasets`, or files as they are."""

    repo: str
    config: str | None = None
    split: str | None = None
    """Rows are fetched by split; without one, `files` are."""
    files: tuple[str, ...] = ()
    target: str = ""
    """File below the suite's folder that the rows of the split are written to."""


class Suite(Record):
    """One published set."""

    items: int | None
    """None where it is made to order."""
    metric: Literal["judge", "option"]
    k: int = 1
    """Rollouts a question; Avg@k."""
    entries: tuple[str, ...] = ()
    """Names of its entry in released manifests, besides its own."""
    hub: Hub | None = None


@dataclass(frozen=True)
class Found:
    """The files of a suite (`layout`), or its entry in a manifest (`layout` None)."""

    suite: str
    path: Path
    layout: Layout | None = None
    entry: str = ""

    @property
    def origin(self) -> Origin:
        """Where the rows of a layout are; pictures are relative to the file's folder."""
        return Origin(source=self.suite, root=self.path.parent, file=self.path)

    @property
    def target(self) -> str:
        """How `load_samples` names it."""
        return f"{self.path}:{self.entry}" if self.entry else str(self.path)

    def load(self, *, seed: int = 0, limit: int | None = None, warn: Warn = warnings.warn) -> list[Sample]:
        """Its samples. `UserError` names what is missing; `warn` is told of a length that differs."""
        if limit is not None and limit < 1:
            raise UserError(f"limit = {limit}: at least 1")
        if self.layout is None:
            return load_samples(self.target, seed=seed, limit=limit, warn=warn)
        pictures = Pictures()
        samples = read_samples(self.layout.rows(self.path), self.origin, pictures, limit)
        pictures.check()
        if not samples:
            raise UserError(f"{self.path}: holds no question of suite {self.suite}")
        return with_unique_ids(samples)

    def row_set(self, items: int | None = None) -> RowSet:
        """Its rows, to be checked; `items` is the number that was published."""
        if self.layout is not None:
            rows = self.layout.rows
            return RowSet(self.suite, self.origin, lambda: rows(self.path), items)
        (entry,) = row_sets(self.target)
        return replace(entry, wanted=entry.wanted if items is None else items)


def common(
    row: Mapping[str, Any],
    *,
    id: Any,
    question: str,
    pictures: Sequence[str],
    answers: Sequence[Any],
    choices: Mapping[str, str] | None = None,
) -> Row:
    """A row in the common layout. The row's other columns go along, but for pictures in bytes."""
    kept = {key: value for key, value in row.items() if not _is_heavy(value) and key not in ("prompt", "image")}
    return {
        **json.loads(json.dumps(kept, default=str)),
        "id": id,
        "prompt": [{"role": "user", "content": question.replace("<image>", "").strip()}],
        "image": [path for path in pictures if path],
        "reward_model": {"ground_truth": distinct(answers)},
        **({"choices": dict(choices)} if choices else {}),
    }


def distinct(answers: Sequence[Any]) -> list[str]:
    """The answers as texts, each once, in their order; empty ones are left out."""
    texts = [str(answer).strip() for answer in answers if answer is not None]
    return list(dict.fromkeys(text for text in texts if text))


def listed(question: str, choices: Mapping[str, str]) -> str:
    """A question with its options below it, as rows with option columns show them."""
    return "\n".join([question.strip(), *(f"{letter}. {text}" for letter, text in choices.items())])


def picture_in(table: Path, cell: Any) -> str | None:
    """The path of a picture that a table holds as bytes, base64 or path; None where the cell is empty."""
    if isinstance(cell, Mapping):
        cell = cell.get("bytes") or cell.get("path")
    if not isinstance(cell, bytes | str) or not cell:
        return None
    return keep_picture(table, cell) or str(cell)


def as_list(value: Any) -> list[Any]:
    """A value, a list of values, nothing, or a JSON list written as text."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return [value]
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def need(row: Mapping[str, Any], column: str, path: Path) -> Any:
    """A column that the layout has. `UserError` names it where it is missing."""
    if column not in row:
        raise UserError(f"{path}: a column {column!r} is expected; there are {', '.join(map(str, row))}")
    return row[column]


def objects(path: Path) -> list[Row]:
    """The objects of a JSON list. `UserError` where the file holds anything else."""
    value = read_json(path)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise UserError(f"{path}: a JSON list of objects is expected")
    return value


def shards(path: Path) -> Iterator[Row]:
    """The rows of a parquet file, and of its other parts where it is named like `train-00000-of-00003.parquet`."""
    part = re.match(r"(.+?)-\d{5}", path.stem)
    pattern = f"{glob.escape(part[1])}-*.parquet" if part else glob.escape(path.name)
    for file in sorted(path.parent.glob(pattern)):
        yield from read_parquet(file)


def _is_heavy(value: Any) -> bool:
    """Pictures: bytes, a struct of bytes, a list of them, or a base64 text."""
    if isinstance(value, Mapping):
        return any(map(_is_heavy, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_is_heavy, value))
    return isinstance(value, bytes) or (isinstance(value, str) and len(value) > 20_000 and " " not in value)
