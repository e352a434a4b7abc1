"""Files that survive a kill: atomic writes, and JSON lines that are appended whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from vlagent.errors import PermanentError, UserError, first_problem

R = TypeVar("R", bound=BaseModel)
LOCK = ".lock"
_DISK_FAILS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
"""The machine's failures; any other refusal to write (no permission, a file in the way) is the user's to mend."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """The disk's failures inside as a `ServiceError`, any other refusal to write as a `UserError`."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in _DISK_FAILS:
            raise PermanentError("disk", f"{path} cannot be written ({reason})") from error
        raise UserError(f"{path}: cannot be written ({reason}); choose another folder") from error


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write a file so that a reader sees the old or the new content, never a part.

    Raises `ServiceError` where the disk is full or fails, `UserError` where the place cannot be written.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data.encode() if isinstance(data, str) else data)


def _replace(path: Path, raw: bytes) -> None:
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


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold a folder's lock. `UserError` where another process holds it; a killed holder leaves nothing behind."""
    import fcntl

    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UserError(f"{folder}: another process is writing here; wait for its end, or choose another one") from None
    finally:
        os.close(lock)


def write_json(path: Path, value: Any) -> None:
    """Write a record or plain JSON value, indented."""
    if isinstance(value, BaseModel):
        write_atomic(path, value.model_dump_json(indent=1) + "\n")
    else:
        write_atomic(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file; a user's broken file is one clear line."""
    try:
        return _value(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: {_why_unreadable(error)}") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None


def _value(text: str) -> Any:
    """The value of a JSON text. Lone surrogates (half an emoji) become question marks: nothing could write them."""
    value = json.loads(text)
    if "\\ud" not in text.lower():
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _why_unreadable(error: OSError) -> str:
    return "no such file" if isinstance(error, FileNotFoundError) else (error.strerror or str(error)).lower()


def append_jsonl(path: Path, *records: BaseModel | dict[str, Any]) -> None:
    """Append records, a line each, in one write. A torn last line of an earlier kill is cut off first.

    Raises like `write_atomic`.
    """
    lines = "".join(
        (r.model_dump_json() if isinstance(r, BaseModel) else json.dumps(r, ensure_ascii=False)) + "\n" for r in records
    )
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+", buffering=0) as file:
            _cut_torn_line(file)
            _write_whole(file, lines.encode())


def write_records(path: Path, records: Iterable[BaseModel]) -> None:
    """A file of these records, a line each; a reader sees the old or the new ones. Raises like `write_atomic`."""
    write_atomic(path, "".join(record.model_dump_json() + "\n" for record in records))


def _write_whole(file: Any, raw: bytes) -> None:
    """All of it or an error: a full disk takes a part and says so only at the next try."""
    rest = memoryview(raw)
    while rest:
        rest = rest[file.write(rest) :]


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
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: {_why_unreadable(error)}") from None
    with file:
        for number, line in enumerate(file, 1):
            if ours and not line.endswith(b"\n"):
                return
            if line.strip():
                yield _object(line, f"{path}:{number}")


def _object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = _value(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise UserError(f"{where}: a JSON object is expected, this is {type(value).__name__}")
    return value


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a file that we wrote; an absent file holds none."""
    if not path.exists():
        return
    for number, value in enumerate(iter_jsonl(path, ours=True), 1):
        try:
            yield kind.model_validate(value)
        except ValidationError as error:
            first = first_problem(error)
            raise UserError(f"{path}: line {number} is no {kind.__name__}: {first.key}: {first.said}") from None


def sha256_of(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
