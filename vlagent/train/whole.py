"""Folders of weights that are there whole or not at all, whatever a kill or a full disk does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError

from vlagent.errors import PermanentError
from vlagent.files import writing

_TORCH_CANNOT_WRITE = ("PytorchStreamWriter", "inline_container", "iostream")
"""Words in what torch.save says of a disk that takes no more: a plain RuntimeError."""


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write beside `folder`, whose place it takes at the end, in one piece and on the disk.

    Raises `ServiceError` where the disk is full or fails, `UserError` where the place cannot be written; what was there
    before is untouched then, and nothing half-written takes room.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    try:
        with writing(folder):
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            with _disk_of_writers(folder):
                yield partial
            for file in partial.rglob("*"):
                _sync(file)
            shutil.rmtree(folder, ignore_errors=True)
            partial.rename(folder)
            _sync(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _disk_of_writers(folder: Path) -> Iterator[None]:
    """safetensors and torch say with errors of their own that a file could not be written."""
    try:
        yield
    except SafetensorError as error:
        raise PermanentError("disk", f"{folder} cannot be written ({error})") from error
    except RuntimeError as error:
        if not any(word in str(error) for word in _TORCH_CANNOT_WRITE):
            raise
        reason = str(error).splitlines()[0]
        raise PermanentError("disk", f"{folder} cannot be written ({reason})") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
