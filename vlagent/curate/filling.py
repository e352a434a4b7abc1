"""An empty folder that is filled by one call: what a killed call left there is no reason to refuse it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from vlagent.errors import UserError
from vlagent.files import only_writer, write_atomic

MARK = ".unfinished"
"""Lies in the folder until it is whole."""


def leftovers(out: Path, ours: Sequence[str]) -> list[Path]:
    """What a killed call left in the folder (names as in the patterns `ours`). `UserError` where it holds more."""
    there = [path for path in out.iterdir() if not path.name.startswith(".")] if out.is_dir() else []
    killed = (out / MARK).exists() and all(any(fnmatch(path.name, name) for name in ours) for path in there)
    if there and not killed:
        raise UserError(f"{out}: this folder is not empty; choose another one")
    return there


@contextmanager
def filling(out: Path, left: Sequence[Path]) -> Iterator[None]:
    """Hold the folder while it is filled anew, without what is `left`. `UserError` where another process does."""
    with only_writer(out):
        write_atomic(out / MARK, "")
        for path in left:
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        yield
        (out / MARK).unlink()
