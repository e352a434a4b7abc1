"""The files below some folders: each real file once, whatever links lead to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from vlagent.errors import UserError

MARKER = "vlagent-index.json"
"""A folder that holds this file is an index of ours and never a source."""


@dataclass
class Walk:
    """What a walk found."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    """Real path -> its state, in order of the path."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Suffix -> how many files of a kind that is not read."""
    problems: list[tuple[str, str]] = field(default_factory=list)
    """File and reason, a line each."""


def walk(sources: Sequence[Path], wanted: Callable[[str], bool], skip: Sequence[str] = ()) -> Walk:
    """List the files below `sources` (folders or single files) that `wanted(name)` accepts.

    Hidden files and folders are left out, links are followed once, and `skip` holds glob patterns of names or paths.
    Raises UserError for a source that is not there.
    """
    found, seen = Walk(), set[str]()
    for source in sources:
        if not source.exists():
            raise UserError(f"{shown(source)}: no such file or folder to index")
        for path in _below(os.path.realpath(source), seen, found, skip):
            _sort_in(path, wanted, found)
    found.files = dict(sorted(found.files.items()))
    return found


def shown(path: str | Path) -> str:
    """A path that can be printed and stored: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(path).decode("utf-8", "replace")


def address(file: str, folder: Path) -> str:
    """How an index in `folder` (SEARCH/text, SEARCH/images) names a file.

    Relative where both lie under the same parent of SEARCH, so that a world can be moved as a whole; else absolute.
    """
    here, home = _real(folder), _real(folder.parent.parent)
    return os.path.relpath(file, here) if home != "/" and file.startswith(home + "/") else file


def located(name: str, folder: Path) -> str:
    """The absolute path behind an `address`."""
    return os.path.normpath(f"{_real(folder)}/{name}" if not name.startswith("/") else name)


@cache
def _real(folder: Path) -> str:
    return os.path.realpath(folder)


def _below(path: str, seen: set[str], found: Walk, skip: Sequence[str]) -> Iterator[str]:
    pending = [path]
    while pending:
        here = pending.pop()
        if here in seen:
            continue
        seen.add(here)
        if not Path(here).is_dir():
            yield here
            continue
        try:
            names = sorted(entry.name for entry in os.scandir(here))
        except OSError as error:
            found.problems.append((shown(here), error.strerror or "cannot be listed"))
            continue
        if MARKER in names:
            continue
        kept = (name for name in names if not name.startswith(".") and not _matches(here, name, skip))
        pending += [os.path.realpath(Path(here, name)) for name in reversed(list(kept))]


def _matches(folder: str, name: str, skip: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(f"{folder}/{name}", pattern) for pattern in skip)


def _sort_in(path: str, wanted: Callable[[str], bool], found: Walk) -> None:
    try:
        state = Path(path).stat()
    except OSError as error:
        reason = "a link that leads nowhere" if isinstance(error, FileNotFoundError) else error.strerror
        found.problems.append((shown(path), reason or "cannot be read"))
        return
    if not stat.S_ISREG(state.st_mode):
        return
    if wanted(path):
        found.files[path] = state
    else:
        suffix = Path(path).suffix.lower() or "(no suffix)"
        found.skipped[suffix] = found.skipped.get(suffix, 0) + 1
