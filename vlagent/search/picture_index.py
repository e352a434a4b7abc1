"""Reverse image search in an index of pictures: finds the same picture, whole, cropped, turned or inside another.

Votes of visual words name some candidates; a similarity transform (RANSAC) and the pixels under it confirm or refuse
each. Perceptual hashes find copies of pictures that have no keypoints. Nothing confirmed: no hits.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections import OrderedDict
from contextlib import closing
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from vlagent.errors import PermanentError, UserError
from vlagent.search.base import ImageQuery
from vlagent.search.ledger import check_marker
from vlagent.search.picture_features import DETAIL_SIDE, KEPT, SIDE, Features, extract
from vlagent.search.picture_postings import Postings, open_segments
from vlagent.search.picture_store import VERSION, PictureStore, read_only
from vlagent.search.picture_words import Vocabulary, hamming, one_thread
from vlagent.search.verify import Match, same_picture, similarity
from vlagent.search.walk import located, shown
from vlagent.types import Hit, ImageRef, Source

CANDIDATES = 24
"""Pictures whose geometry is checked."""
COPY_BITS = 10
"""Of 64; pictures whose hashes differ in more are no copies."""
REMEMBERED = 512
"""Queries whose hits are kept in memory."""


class PictureIndex:
    """An `ImageSearch` over the folder that `vlagent index images` made."""

    def __init__(self, folder: Path) -> None:
        check_marker(folder, "images", VERSION)
        cv2.setNumThreads(1)
        self.folder = folder
        try:
            opened = _open(folder)
        except FileNotFoundError:
            opened = _open(folder)
        except sqlite3.Error as error:
            raise UserError(
                f"{shown(folder)}: unfinished or damaged ({error}); run vlagent index images again"
            ) from None
        self._words, self._files, self._postings = opened
        self._known: OrderedDict[tuple[object, ...], list[Hit]] = OrderedDict()
        self._coming: dict[tuple[object, ...], asyncio.Future[list[Hit]]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Pictures in the index."""
        return len(self._files)

    async def search(self, query: ImageQuery) -> list[Hit]:
        """Pictures that show the same, best first; `[]` if none does.

        Raises ServiceError if the query's pixels or the index cannot be read.
        """
        key = (asyncio.get_running_loop(), query.image.path, query.image.box, query.top_k)
        coming = self._coming.get(key)
        if coming is None:
            # Episodes of one question look the same picture up at the same moment: once is enough.
            coming = self._coming[key] = asyncio.ensure_future(asyncio.to_thread(self.find, query))
            coming.add_done_callback(lambda done: self._arrived(key, done))
        return await asyncio.shield(coming)

    def _arrived(self, key: tuple[object, ...], done: asyncio.Future[list[Hit]]) -> None:
        self._coming.pop(key, None)
        if not done.cancelled():
            done.exception()  # whoever still waits has it; nobody need

    def find(self, query: ImageQuery) -> list[Hit]:
        """`search` without a thread of its own; an answer that was given before is remembered.

        What is not found at a glance is looked for in detail: a page may hold the picture small.
        """
        ref = query.image
        key = (ref.path, ref.box, _mtime(ref.path))
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key][: query.top_k]
        with one_thread():
            hits = self._find(extract(ref))
            if not hits and max(ref.width, ref.height) > 1.2 * SIDE:
                hits = self._find(extract(ref, side=DETAIL_SIDE, kept=3 * KEPT))
        with self._lock:
            self._known[key] = hits
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return hits[: query.top_k]

    def _find(self, looks: Features) -> list[Hit]:
        matches = [*self._by_keypoints(looks), *self._by_hash(looks)]
        best: dict[int, Match] = {}
        for match in matches:
            if match.picture not in best or match.score > best[match.picture].score:
                best[match.picture] = match
        ordered = sorted(best.values(), key=lambda m: (-round(m.score, 4), self._file(m.picture)))
        return self._hits(ordered)

    def _by_keypoints(self, looks: Features) -> list[Match]:
        if self._words is None or len(looks.points) < 4:
            return []
        pairs = self._postings.pairs(looks, self._words, CANDIDATES)
        thumbs = self._thumbs([picture for picture, _, _ in pairs])
        found = []
        for picture, here, there in pairs:
            match = similarity(picture, looks, here, there, self._size(picture), thumbs.get(picture))
            if match:
                found.append(match)
        return found

    def _by_hash(self, looks: Features) -> list[Match]:
        hashes = self._postings.hashes
        bits = hamming(hashes, np.full(len(hashes), looks.hash, np.uint64))
        close = np.flatnonzero((bits <= COPY_BITS) & self._postings.live)
        near = [int(i) for i in close[np.lexsort((close, bits[close]))][:CANDIDATES]]
        thumbs = self._thumbs(near)
        found = [same_picture(i, looks, self._size(i), thumbs.get(i)) for i in near]
        return [match for match in found if match]

    def _file(self, picture: int) -> bytes:
        return self._files[int(self._postings.numbers[picture])]

    def _size(self, picture: int) -> tuple[int, int]:
        width, height = self._postings.sizes[picture]
        return int(width), int(height)

    def _thumbs(self, pictures: list[int]) -> dict[int, bytes]:
        """Packed, since most candidates fail before their pixels are asked for."""
        return {picture: row[1] for picture, row in self._rows("file, thumb", pictures).items()}

    def _hits(self, matches: list[Match]) -> list[Hit]:
        rows = self._rows("file, title, text, url, width, height", [match.picture for match in matches])
        hits = []
        for match in matches:
            if match.picture not in rows:
                continue
            name, title, text, url, width, height = rows[match.picture]
            file = located(os.fsdecode(name), self.folder)
            thumbnail = ImageRef(path=file, width=width, height=height) if Path(file).exists() else None
            source = Source(title=title, file=file, url=url)
            hits.append(Hit(source=source, text=text, score=round(match.score, 4), thumbnail=thumbnail))
        return hits

    def _rows(self, columns: str, pictures: list[int]) -> dict[int, tuple[Any, ...]]:
        if not pictures:
            return {}
        names = {self._file(picture): picture for picture in pictures}
        marks = ", ".join("?" * len(names))
        try:
            with closing(read_only(self.folder)) as connection:
                query = f"SELECT {columns} FROM pictures WHERE file IN ({marks})"
                return {names[row[0]]: row for row in connection.execute(query, list(names))}
        except sqlite3.Error as error:
            raise PermanentError("picture index", str(error)) from None


def _open(folder: Path) -> tuple[Vocabulary | None, dict[int, bytes], Postings]:
    """FileNotFoundError where a writer has just replaced a segment: what it wrote instead is there then."""
    with closing(read_only(folder)) as connection:
        store = PictureStore(connection, folder)
        vocabulary, files = store.vocabulary(), store.files()
        words = len(vocabulary.centres) if vocabulary else 1
        segments = open_segments(folder, store, words)
    return vocabulary, files, Postings(segments, np.array(sorted(files), np.int64), words)


def _mtime(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0
