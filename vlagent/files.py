"""Files that survive a kill: atomic writes, and JSON lines that are appended whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vlagent.errors import UserError

R = TypeVar("R", bound=BaseModel)


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file so that a reader sees the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    raw = data.encode() if isinstance(data, str) else data
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_json(path: Path, value: Any) -> None:
    """Write a record or plain JSON value, indented."""
    if isinstance(value, BaseModel):
        write_atomic(path, value.model_dump_json(indent=1) + "\n")
    else:
        write_atomic(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a user's broken file is one clear line."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None


def append_jsonl(path: Path, *records: BaseModel | dict[str, Any]) -> None:
    """Append records, a line each, in one write. A torn last line of an earlier kill is cut off first."""
    lines = "".join(
        (r.model_dump_json() if isinstance(r, BaseModel) else json.dumps(r, ensure_ascii=False)) + "\n" for r in records
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        _cut_torn_line(file)
        file.write(lines.encode())
        file.flush()


def _cut_torn_line(file: Any) -> None:
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) == b"\n":
        return
    position = end
    while position > 0:
        step = min(4096, position)
        file.seek(position - step)
        newline = file.read(step).rfind(b"\n")
        if newline >= 0:
            file.truncate(position - step + newline + 1)
            return
        position -= step
    file.truncate(0)


def iter_jsonl(path: Path, *, ours: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON-lines file; a bad line is the user's error with its number.

    With `ours`, the file is one that we append to: a torn last line (a kill in mid-write) is skipped.
    """
    try:
        file = path.open(encoding="utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    with file:
        for number, line in enumerate(file, 1):
            if ours and not line.endswith("\n"):
                return
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise UserError(f"{path}:{number}: not JSON ({error})") from None
            if not isinstance(value, dict):
                raise UserError(f"{path}:{number}: a JSON object is expected, this is {type(value).__name__}")
            yield value


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a file that we wrote; an absent file holds none."""
    if not path.exists():
        return
    for number, value in enumerate(iter_jsonl(path, ours=True), 1):
        try:
            yield kind.model_validate(value)
        except ValidationError as error:
            raise UserError(f"{path}: line {number} is not a {kind.__name__}: {error.errors()[0]['msg']}") from None


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
