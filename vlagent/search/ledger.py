"""What an index already holds, so that a run does only what is new: shared by the text and the picture index.

An index folder has `vlagent-index.json` (kind, schema version, options), `ledger.sqlite` and the data. The order is
always: data committed, then the ledger. A kill in between costs some repeated work and nothing else, because what is
added again first replaces what was there under the same file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from vlagent.errors import UserError
from vlagent.files import read_json, sha256_of, write_json
from vlagent.search.walk import MARKER, address, located, shown
from vlagent.types import Record

Kind = Literal["text", "images", "dense", "semantic", "search-r1"]


class Marker(Record):
    """Says what a folder is; a reader of another schema version refuses it."""

    kind: Kind
    version: int
    options: dict[str, int | str] = Field(default_factory=dict)
    """What shapes the content: an index is never filled under two settings."""


class IndexReport(Record):
    """What a run of an indexer did."""

    files: int
    """That the index holds now."""
    parts: int
    """Passages or pictures that it holds now."""
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: dict[str, int] = Field(default_factory=dict)
    """Suffix -> files of a kind that is not read."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """File and reason."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Entry:
    """One indexed file."""

    size: int
    mtime_ns: int
    sha256: str
    parts: int
    """Passages or pictures of the file that are safely in the index."""
    done: bool
    """False while a long file is in the middle."""


@contextmanager
def writing(folder: Path, marker: Marker, *, rebuild: bool = False) -> Iterator[Ledger]:
    """Open or create an index folder for the only writer; UserError if that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UserError(f"{shown(folder)}: cannot be written ({error.strerror}); choose another folder") from None
    try:
        _take(lock, folder)
        _prepare(folder, marker, rebuild)
        ledger = Ledger(folder)
        try:
            yield ledger
        finally:
            ledger.close()
    finally:
        os.close(lock)


def check_marker(folder: Path, kind: Kind, version: int) -> Marker:
    """The marker of an index that is to be read; UserError if it is none of ours or of another version."""
    if not (folder / MARKER).exists():
        raise UserError(
            f"{shown(folder)}: no index here; make it: vlagent index {kind} SOURCE... {shown(folder.parent)}"
        )
    try:
        marker = Marker.model_validate(read_json(folder / MARKER))
    except ValidationError:
        raise UserError(f"{shown(folder / MARKER)}: not the marker of an index; {_rebuild(kind, folder)}") from None
    if marker.kind != kind:
        raise UserError(f"{shown(folder)}: an index of {marker.kind}, not of {kind}")
    if marker.version != version:
        raise UserError(
            f"{shown(folder)}: made by another release (schema {marker.version}, this one reads {version}); "
            f"{_rebuild(kind, folder)}"
        )
    return marker


def _rebuild(kind: str, folder: Path) -> str:
    return f"rebuild it: vlagent index {kind} SOURCE... {shown(folder.parent)} --rebuild"


def _take(lock: int, folder: Path) -> None:
    import fcntl

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"{shown(folder)}: another process is writing this index; wait until it has ended") from None


def _prepare(folder: Path, marker: Marker, rebuild: bool) -> None:
    ours = (folder / MARKER).exists()
    others = [path for path in folder.iterdir() if path.name not in (".lock", MARKER)]
    if not ours and others:
        raise UserError(f"{shown(folder)}: holds other files and is no index; choose an empty or new folder")
    if rebuild:
        for path in others:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if not ours or rebuild:
        write_json(folder / MARKER, marker)
        return
    there = check_marker(folder, marker.kind, marker.version)
    if there.options != marker.options:
        raise UserError(
            f"{shown(folder)}: made with {there.options}, not {marker.options}; {_rebuild(marker.kind, folder)}"
        )


class Ledger:
    """The files of an index by their real path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.connection = sqlite3.connect(folder / "ledger.sqlite", isolation_level=None)
        self.connection.execute("PRAGMA synchronous=NORMAL")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS files "
            "(file BLOB PRIMARY KEY, size INT, mtime_ns INT, sha256 TEXT, parts INT, done INT) WITHOUT ROWID"
        )

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def entries(self) -> dict[str, Entry]:
        """Every file that the index knows."""
        rows = self.connection.execute("SELECT file, size, mtime_ns, sha256, parts, done FROM files ORDER BY file")
        return {
            located(os.fsdecode(file), self.folder): Entry(size, mtime_ns, sha256, parts, bool(done))
            for file, size, mtime_ns, sha256, parts, done in rows
        }

    def write(self, entries: dict[str, Entry | None]) -> None:
        """Record files as they now are in the index, None for those that are gone; inside a `transaction`."""
        named = {os.fsencode(address(file, self.folder)): entry for file, entry in entries.items()}
        gone = [(name,) for name, entry in named.items() if entry is None]
        kept = [(name, e.size, e.mtime_ns, e.sha256, e.parts, e.done) for name, e in named.items() if e]
        self.connection.executemany("DELETE FROM files WHERE file = ?", gone)
        self.connection.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", kept)


@dataclass
class Plan:
    """What a run has to do."""

    new: list[str]
    changed: list[str]
    unfinished: list[str]
    """Begun by a run that was killed; their first `parts` passages are there."""
    touched: dict[str, Entry]
    """Same content under a new time stamp."""
    gone: list[str]
    unchanged: int


def plan(known: dict[str, Entry], found: dict[str, os.stat_result], sources: Sequence[Path]) -> Plan:
    """Compare the ledger with the disk. Files outside `sources` are left as they are."""
    plan = Plan([], [], [], {}, [], 0)
    for file, state in found.items():
        entry = known.get(file)
        if entry is None:
            plan.new.append(file)
        elif (entry.size, entry.mtime_ns) == (state.st_size, state.st_mtime_ns):
            plan.unchanged += entry.done
            plan.unfinished += [] if entry.done else [file]
        elif entry.done and entry.size == state.st_size and digest(file) == entry.sha256:
            plan.touched[file] = Entry(state.st_size, state.st_mtime_ns, entry.sha256, entry.parts, done=True)
            plan.unchanged += 1
        else:
            plan.changed.append(file)
    roots = [os.path.realpath(source) for source in sources]
    plan.gone = [file for file in known if file not in found and _is_below(file, roots)]
    return plan


def digest(file: str) -> str:
    """SHA-256 of a file; empty if it cannot be read (whoever reads it next says why)."""
    try:
        return sha256_of(Path(file))
    except OSError:
        return ""


def _is_below(file: str, roots: Sequence[str]) -> bool:
    return any(file == root or file.startswith(root.rstrip("/") + "/") for root in roots)
