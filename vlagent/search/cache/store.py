"""Answers on disk: SQLite in WAL mode, so that many processes read while one writes.

A cache is disposable: one of another version or a damaged one is started anew, and a write that fails is only counted.
A file that is no cache is somebody's, and stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from vlagent.errors import UserError
from vlagent.types import Record

VERSION = 1
"""Of the table; the version of what is stored is part of each key."""
_MAGIC, _APPLICATION = b"SQLite format 3\0", 0x766C6163
"""How the file begins, and what its header holds at byte 68: "vlac"."""
_CHECKED_EVERY = 16
"""Writes between two looks at the size."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    key BLOB PRIMARY KEY, kind TEXT, size INT, expires REAL, used REAL, value BLOB
);
CREATE INDEX IF NOT EXISTS by_use ON entries (used, size, expires);
"""


class CacheConfig(Record):
    """Where answers are kept, and for how long."""

    path: str | None = None
    """A file; None keeps them for this process only."""
    ttl_hours: float = Field(default=24 * 7, gt=0)
    empty_ttl_hours: float = Field(default=1.0, gt=0)
    """Of a search that found nothing."""
    max_mb: float = Field(default=2000, gt=0)
    """What was used longest ago goes first."""


class Store:
    """Bytes by kind and request."""

    def __init__(self, config: CacheConfig | None = None, now: Callable[[], float] = time.time) -> None:
        """Raises `UserError` where the file cannot be made."""
        self.config = config or CacheConfig()
        self._now = now
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._touched: dict[bytes, float] = {}
        self.hits = self.misses = self.failed_writes = self._writes = 0
        self._connections: tuple[sqlite3.Connection, sqlite3.Connection] | None = self._open()

    def get(self, kind: str, request: str) -> bytes | None:
        """What is kept and still fresh. Fast enough for the event loop: one look-up, never waits for a writer."""
        key, now = _key(kind, request), self._now()
        try:
            row = self._opened()[0].execute("SELECT value, expires FROM entries WHERE key = ?", (key,)).fetchone()
        except sqlite3.DatabaseError:
            row = None
        if row is None or row[1] <= now:
            self.misses += 1
            return None
        self.hits += 1
        self._touched[key] = now
        return bytes(row[0])

    async def put(self, kind: str, request: str, value: bytes, ttl_s: float) -> None:
        """Keep a value, in a thread; returns when it is committed."""
        await asyncio.to_thread(self._write, _key(kind, request), kind, value, ttl_s)

    def stats(self) -> dict[str, float]:
        """Counts of this process, and what the file holds."""
        try:
            entries, size = self._opened()[0].execute("SELECT count(*), coalesce(sum(size), 0) FROM entries").fetchone()
        except sqlite3.DatabaseError:
            entries, size = 0, 0
        return {
            "hits": self.hits,
            "misses": self.misses,
            "failed_writes": self.failed_writes,
            "entries": entries,
            "bytes": size,
        }

    def close(self) -> None:
        """Release the file; the next use opens it again. What was kept for this process only is gone."""
        with self._lock:
            for connection in self._connections or ():
                connection.close()
            self._connections = None
            if self._folder:
                self._folder.cleanup()
                self._folder = None

    @property
    def _path(self) -> Path:
        if self.config.path:
            return Path(self.config.path)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="vlagent-cache-")
        return Path(self._folder.name) / "cache.sqlite"

    def _opened(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        if self._connections is None:
            self._connections = self._open()
        return self._connections

    def _open(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return self._connected()
        except sqlite3.OperationalError as error:
            raise UserError(f"cache {self._path}: {error}; name another file (cache.path)") from None
        except (sqlite3.DatabaseError, _OtherVersion):
            self._delete()
        except OSError as error:
            raise UserError(f"cache {self._path}: {error.strerror}; name another file (cache.path)") from None
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            raise UserError(f"cache {self._path}: {error}; name another file (cache.path)") from None

    def _delete(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def _connected(self) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        if not _is_ours(self._path):
            raise UserError(f"cache {self._path}: holds something else and is no cache; name another file (cache.path)")
        reader, writer = (
            sqlite3.connect(self._path, timeout=5.0, isolation_level=None, check_same_thread=False) for _ in range(2)
        )
        if writer.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
            writer.execute(f"PRAGMA application_id={_APPLICATION}")  # before WAL, so that the file itself has it
        writer.execute("PRAGMA journal_mode=WAL")
        for connection in (reader, writer):
            connection.execute("PRAGMA synchronous=NORMAL")
        found = writer.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, VERSION):
            reader.close()
            writer.close()
            raise _OtherVersion
        writer.executescript(_SCHEMA)
        writer.execute(f"PRAGMA user_version={VERSION}")
        return reader, writer

    def _write(self, key: bytes, kind: str, value: bytes, ttl_s: float) -> None:
        now, size = self._now(), len(value) + len(key) + 64
        with self._lock:
            touched, self._touched = self._touched, {}
            self._writes += 1
            writer = self._opened()[1]
            try:
                with contextlib.closing(writer.cursor()) as cursor:
                    cursor.execute("BEGIN IMMEDIATE")
                    used = [(at, key) for key, at in touched.items()]
                    cursor.executemany("UPDATE entries SET used = ? WHERE key = ?", used)
                    cursor.execute(
                        "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)",
                        (key, kind, size, now + ttl_s, now, value),
                    )
                    if self._writes % _CHECKED_EVERY == 0:
                        self._shrink(cursor, now)
                    cursor.execute("COMMIT")
            except sqlite3.DatabaseError as error:
                self.failed_writes += 1
                with contextlib.suppress(sqlite3.DatabaseError):
                    writer.execute("ROLLBACK")
                if type(error) is sqlite3.DatabaseError:  # damaged; what is full, locked or gone is another kind
                    self._start_anew()

    def _start_anew(self) -> None:
        for connection in self._opened():
            connection.close()
        self._delete()
        self._connections = None

    def _shrink(self, cursor: sqlite3.Cursor, now: float) -> None:
        """Down to nine tenths of the bound: first what is stale, then what was used longest ago."""
        limit = self.config.max_mb * 1e6
        total = cursor.execute("SELECT coalesce(sum(size), 0) FROM entries").fetchone()[0]
        if total <= limit:
            return
        cursor.execute("DELETE FROM entries WHERE expires <= ?", (now,))
        total = cursor.execute("SELECT coalesce(sum(size), 0) FROM entries").fetchone()[0]
        for key, size in cursor.execute("SELECT key, size FROM entries ORDER BY used").fetchall():
            if total <= 0.9 * limit:
                return
            cursor.execute("DELETE FROM entries WHERE key = ?", (key,))
            total -= size


class _OtherVersion(Exception):
    """The file is of another release."""


def _is_ours(path: Path) -> bool:
    """Whether a file is there for us to write, and to delete: none, an empty one, or a cache of any version."""
    try:
        with path.open("rb") as file:
            head = file.read(72)
    except FileNotFoundError:
        return True
    return not head or (head.startswith(_MAGIC) and head[68:] == _APPLICATION.to_bytes(4, "big"))


def _key(kind: str, request: str) -> bytes:
    return hashlib.sha256(f"{kind}\0{request}".encode("utf-8", "surrogatepass")).digest()
