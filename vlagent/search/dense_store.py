"""What a dense index keeps: payloads in SQLite and vectors as float16 in one growing file, row by row.

The vectors are written first, then one SQLite transaction commits payloads, row count and ledger. A kill in between
leaves a tail of vectors that no row count covers; the next writer cuts it off. The faiss index (dense_vectors.py) is
derived from both and can be made anew at any time.

Shape letters: n = rows, d = numbers of a vector.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlagent.errors import PermanentError
from vlagent.search.dense_embedders import Floats
from vlagent.search.ledger import Ledger
from vlagent.search.picture_store import read_only
from vlagent.search.walk import address

VERSION = 1
"""Of the tables and the payload; raised whenever one changes."""
VECTORS = "vectors.f16"

_TABLES = """
CREATE TABLE IF NOT EXISTS passages (number INTEGER PRIMARY KEY, file BLOB, ordinal INT, payload TEXT);
CREATE INDEX IF NOT EXISTS by_file ON passages (file, ordinal);
CREATE TABLE IF NOT EXISTS dead (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS counts (id INTEGER PRIMARY KEY, rows INT);
INSERT OR IGNORE INTO counts VALUES (0, 0);
"""


class DenseWriter:
    """The one writer; the caller opens and commits the transactions of `ledger`."""

    def __init__(self, ledger: Ledger, folder: Path, dim: int) -> None:
        self._db, self._folder, self._dim = ledger.connection, folder, dim
        self._db.executescript(_TABLES)
        self._waiting: list[tuple[bytes, int, str]] = []
        self._vectors: list[NDArray[np.float16]] = []
        self.rows = int(self._db.execute("SELECT rows FROM counts").fetchone()[0])
        self._file = os.open(folder / VECTORS, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self._file, self.rows * 2 * dim)

    def add(self, file: str, ordinals: Sequence[int], payloads: Sequence[dict[str, Any]], vectors: Floats) -> None:
        """Rows of one file; safe after the next `commit`. `vectors` is [n, d]."""
        key = self._key(file)
        texts = (json.dumps(payload, ensure_ascii=False) for payload in payloads)
        self._waiting += [(key, ordinal, text) for ordinal, text in zip(ordinals, texts, strict=True)]
        self._vectors.append(vectors.astype(np.float16))

    def commit(self) -> None:
        """Inside a transaction: what was added becomes rows."""
        if not self._waiting:
            return
        block = np.concatenate(self._vectors)
        os.lseek(self._file, self.rows * 2 * self._dim, os.SEEK_SET)
        _write_whole(self._file, block.tobytes())
        os.fsync(self._file)
        numbered = [(self.rows + at, *row) for at, row in enumerate(self._waiting)]
        self._db.executemany("INSERT INTO passages VALUES (?, ?, ?, ?)", numbered)
        self.rows += len(block)
        self._db.execute("UPDATE counts SET rows = ?", (self.rows,))
        self._waiting, self._vectors = [], []

    def delete(self, file: str, first: int = 0) -> None:
        """Inside a transaction: the rows of a file from ordinal `first` on are dead."""
        mine = (self._key(file), first)
        self._db.execute("INSERT INTO dead SELECT number FROM passages WHERE file = ? AND ordinal >= ?", mine)
        self._db.execute("DELETE FROM passages WHERE file = ? AND ordinal >= ?", mine)

    def close(self) -> None:
        os.close(self._file)

    def _key(self, file: str) -> bytes:
        return os.fsencode(address(file, self._folder))


class DenseReader:
    """Payloads and vectors by row number, read from disk as they are asked for."""

    def __init__(self, folder: Path, dim: int) -> None:
        self._folder = folder
        with closing(self._open()) as connection:
            self.rows = int(connection.execute("SELECT rows FROM counts").fetchone()[0])
            self.dead = np.array([row[0] for row in connection.execute("SELECT number FROM dead")], np.int64)
        shape = (self.rows, dim)
        self.vectors: NDArray[np.float16] = (
            np.memmap(folder / VECTORS, np.float16, "r", shape=shape) if self.rows else np.zeros(shape, np.float16)
        )

    def payloads(self, numbers: Sequence[int]) -> dict[int, dict[str, Any]]:
        """Those that are still there. Raises PermanentError if the table cannot be read."""
        given = sorted(set(numbers))
        found: dict[int, dict[str, Any]] = {}
        try:
            with closing(self._open()) as connection:
                for start in range(0, len(given), 500):
                    part = given[start : start + 500]
                    query = f"SELECT number, payload FROM passages WHERE number IN ({', '.join('?' * len(part))})"
                    found |= {number: json.loads(text) for number, text in connection.execute(query, part)}
        except sqlite3.Error as error:
            raise PermanentError("dense index", str(error)) from None
        return found

    def _open(self) -> sqlite3.Connection:
        return read_only(self._folder)


def _write_whole(file: int, raw: bytes) -> None:
    rest = memoryview(raw)
    while rest:
        rest = rest[os.write(file, rest) :]
