"""The tables of a picture index, beside the ledger in the same SQLite file: one transaction commits both."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from vlagent.search.picture_features import Features, pack_thumb
from vlagent.search.picture_words import Signatures, Vocabulary, Words
from vlagent.search.walk import address

T = TypeVar("T")
VERSION = 1
"""Of the tables, the features and the words; raised whenever one changes."""

_TABLES = """
CREATE TABLE IF NOT EXISTS pictures (
    file BLOB PRIMARY KEY, title TEXT, text TEXT, url TEXT, width INT, height INT, working_width INT,
    working_height INT, hash BLOB, thumb BLOB, points BLOB, descriptors BLOB, words BLOB, signatures BLOB);
CREATE TABLE IF NOT EXISTS vocabulary (
    id INT PRIMARY KEY, pictures INT, centres BLOB, branches BLOB, starts BLOB);
CREATE TABLE IF NOT EXISTS slots (number INTEGER PRIMARY KEY AUTOINCREMENT, file BLOB UNIQUE);
INSERT OR IGNORE INTO slots (file) SELECT file FROM pictures ORDER BY file;
"""
"""A slot is a number that no other version of any picture ever gets; the segments of postings are known by it."""


@dataclass(frozen=True)
class Caption:
    """What a hit says about a picture."""

    title: str
    text: str = ""
    url: str | None = None


class PictureStore:
    """Reads and writes pictures; the caller opens and commits the transactions."""

    def __init__(self, connection: sqlite3.Connection, folder: Path) -> None:
        self.connection = connection
        self.folder = folder

    def create(self) -> None:
        self.connection.executescript(_TABLES)

    def has_slots(self) -> bool:
        """False for an index that an earlier release has made and none has refreshed."""
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'slots'"
        return self.connection.execute(query).fetchone() is not None

    def slots(self) -> NDArray[np.int64]:
        """The slots of all pictures, ascending."""
        rows = self.connection.execute(f"SELECT number FROM {self._slots()} ORDER BY number")
        return np.array([row[0] for row in rows], np.int64)

    def files(self) -> dict[int, bytes]:
        """Slot -> address."""
        return dict(self.connection.execute(f"SELECT number, file FROM {self._slots()}").fetchall())

    def _slots(self) -> str:
        return "slots" if self.has_slots() else "(SELECT rowid AS number, file FROM pictures)"

    def put(self, file: str, size: tuple[int, int], caption: Caption, features: Features, words: Vocabulary) -> None:
        """Add or replace one picture."""
        nearest = words.nearest(features.descriptors, 1)[:, 0]
        signatures = words.signatures(features.descriptors, nearest)
        row = (self._key(file), caption.title, caption.text, caption.url, *size, *features.size)
        blobs = (
            features.hash.to_bytes(8, "big"),
            pack_thumb(features.thumb),
            features.points.astype(np.float16).tobytes(),
            features.descriptors.tobytes(),
            nearest.astype(np.uint16).tobytes(),
            signatures.tobytes(),
        )
        marks = ", ".join("?" * (len(row) + len(blobs)))
        self.connection.execute(f"INSERT OR REPLACE INTO pictures VALUES ({marks})", row + blobs)
        self.connection.execute("INSERT OR REPLACE INTO slots (file) VALUES (?)", (self._key(file),))

    def delete(self, file: str) -> None:
        for table in ("pictures", "slots"):
            self.connection.execute(f"DELETE FROM {table} WHERE file = ?", (self._key(file),))

    def caption(self, file: str) -> Caption | None:
        """The caption as it is stored."""
        query = "SELECT title, text, url FROM pictures WHERE file = ?"
        row = self.connection.execute(query, (self._key(file),)).fetchone()
        return Caption(*row) if row else None

    def set_caption(self, file: str, caption: Caption) -> None:
        self.connection.execute(
            "UPDATE pictures SET title = ?, text = ?, url = ? WHERE file = ?",
            (caption.title, caption.text, caption.url, self._key(file)),
        )

    def vocabulary(self) -> Vocabulary | None:
        row = self.connection.execute("SELECT pictures, centres, branches, starts FROM vocabulary").fetchone()
        if row is None:
            return None
        centres, branches = (np.frombuffer(blob, np.float32).reshape(-1, 128) for blob in row[1:3])
        return Vocabulary(centres, branches, np.frombuffer(row[3], np.int64), row[0])

    def set_vocabulary(self, words: Vocabulary) -> None:
        """Store a new vocabulary and look at every picture again through it."""
        arrays = (words.centres.astype(np.float32), words.branches.astype(np.float32), words.starts.astype(np.int64))
        row = (words.pictures, *(array.tobytes() for array in arrays))
        self.connection.execute("INSERT OR REPLACE INTO vocabulary VALUES (0, ?, ?, ?, ?)", row)
        for (file,) in self.connection.execute("SELECT file FROM pictures").fetchall():
            descriptors = self._descriptors(file)
            nearest = words.nearest(descriptors, 1)[:, 0]
            self.connection.execute(
                "UPDATE pictures SET words = ?, signatures = ? WHERE file = ?",
                (nearest.astype(np.uint16).tobytes(), words.signatures(descriptors, nearest).tobytes(), file),
            )
            self.connection.execute("INSERT OR REPLACE INTO slots (file) VALUES (?)", (file,))

    def sample(self, count: int) -> Iterator[np.ndarray]:
        """Descriptors of at most `count` pictures, evenly spaced in the order of their files."""
        files = [row[0] for row in self.connection.execute("SELECT file FROM pictures ORDER BY file")]
        for file in evenly(files, count):
            yield self._descriptors(file)

    def load(self, numbers: Sequence[int]) -> Loaded:
        """The pictures of these slots, in the order of the numbers."""
        rows = [row for start in range(0, len(numbers), 500) for row in self._rows(numbers[start : start + 500])]
        rows.sort(key=lambda row: row[0])
        points = [np.frombuffer(row[4], np.float16).reshape(-1, 2) for row in rows]
        counts = [len(one) for one in points]
        return Loaded(
            numbers=[row[0] for row in rows],
            sizes=[(row[1], row[2]) for row in rows],
            hashes=np.array([int.from_bytes(row[3], "big") for row in rows], np.uint64),
            owners=np.repeat(np.arange(len(rows), dtype=np.int32), counts),
            points=np.concatenate([np.zeros((0, 2), np.float16), *points]),
            words=np.frombuffer(b"".join(row[5] for row in rows), np.uint16),
            signatures=np.frombuffer(b"".join(row[6] for row in rows), np.uint64),
        )

    def _rows(self, numbers: Sequence[int]) -> list[Any]:
        columns = "number, working_width, working_height, hash, points, words, signatures"
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT {columns} FROM {self._slots()} JOIN pictures USING (file) WHERE number IN ({marks})"
        return self.connection.execute(query, list(numbers)).fetchall()

    def _descriptors(self, file: bytes) -> np.ndarray:
        row = self.connection.execute("SELECT descriptors FROM pictures WHERE file = ?", (file,)).fetchone()
        return np.frombuffer(row[0], np.uint8).reshape(-1, 128)

    def _key(self, file: str) -> bytes:
        return os.fsencode(address(file, self.folder))


@dataclass(frozen=True, eq=False)
class Loaded:
    """Some pictures as the tables hold them. P = pictures, N = keypoints of all."""

    numbers: list[int]
    """Slots, [P]."""
    sizes: list[tuple[int, int]]
    """Working width and height, [P]."""
    hashes: np.ndarray
    """[P] uint64"""
    owners: np.ndarray
    """[N] picture of each keypoint."""
    points: np.ndarray
    """[N, 2] x and y in the working copy of its picture."""
    words: Words
    """[N]"""
    signatures: Signatures
    """[N]"""


def read_only(folder: Path) -> sqlite3.Connection:
    """A connection for searching."""
    path = quote(os.fsencode(folder.absolute() / "ledger.sqlite"))
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)


def evenly(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of them, evenly spaced."""
    if len(items) <= count:
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]
