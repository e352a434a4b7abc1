"""Search in a dense index of passages. `dense_build.py` makes it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vlagent.errors import UserError
from vlagent.search.base import TextQuery
from vlagent.search.dense_embedders import Embedder, Floats, open_embedder
from vlagent.search.dense_store import VERSION, DenseReader
from vlagent.search.dense_vectors import Nearest, open_vectors, probes_for, read_state
from vlagent.search.ledger import check_marker
from vlagent.search.retrieval import Found, payload_found
from vlagent.search.walk import located, shown
from vlagent.types import Hit, Source

RERANK = 8
"""Times as many candidates as hits are ordered by their exact vectors."""


class DenseIndex:
    """A `TextSearch` and a `PassageSearch` over the folder that `vlagent index dense` made."""

    def __init__(
        self, folder: Path, embedder: Embedder | None = None, *, probes: int | None = None, rerank: int = RERANK
    ) -> None:
        """`probes` of the inverted lists are looked into (`probes_for`); `rerank` 1 turns it off."""
        marker = check_marker(folder, "dense", VERSION)
        state = read_state(folder)
        if state is None:
            raise UserError(f"{shown(folder)}: the index was never finished; run the same vlagent index dense again")
        self.folder, self.kind, self.rerank = folder, state.kind, rerank
        self.probes = probes or probes_for(state.lists)
        try:
            self._store = DenseReader(folder, int(marker.options["dim"]))
        except (sqlite3.Error, OSError, ValueError) as error:
            raise UserError(f"{shown(folder)}: damaged ({error}); rebuild it with --rebuild") from None
        index = open_vectors(folder / state.file)
        self._nearest = Nearest(index, state.kind, self._store.dead, self._store.vectors)
        self._model = embedder or open_embedder(str(marker.options["embedder"]))

    def __len__(self) -> int:
        """Passages in the index."""
        return self._store.rows - len(self._store.dead)

    async def search(self, query: TextQuery) -> list[Hit]:
        """The nearest passages; PermanentError if the index cannot be read."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: TextQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        return [found.hit() for found in self.passages([query.text], query.top_k)[0]]

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]:
        """The nearest passages of each query, with their ids; copies are shown once."""
        asked = [number for number, query in enumerate(queries) if query.strip()]
        lists: list[list[Found]] = [[] for _ in queries]
        if not asked or top_k <= 0 or not len(self):
            return lists
        vectors = self._model.queries([_clean(queries[number]) for number in asked])
        scores, numbers = self.nearest(vectors, 2 * top_k + 8)
        payloads = self._store.payloads([int(number) for number in numbers.ravel() if number >= 0])
        for at, number in enumerate(asked):
            ranked = zip(numbers[at].tolist(), scores[at].tolist(), strict=True)
            found = [self._found(payloads[row], score) for row, score in ranked if row in payloads]
            lists[number] = distinct(found)[:top_k]
        return lists

    def nearest(self, vectors: Floats, count: int) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and row numbers, [q, count] each, for [q, d] vectors of queries."""
        count = min(count, max(self._store.rows, 1))
        return self._nearest.search(vectors, count, probes=self.probes, rerank=self.rerank)

    def _found(self, payload: dict[str, object], score: float) -> Found:
        page, url = payload.get("page"), payload.get("url")
        source = Source(
            title=str(payload["title"]),
            file=located(str(payload["file"]), self.folder),
            page=page if isinstance(page, int) else None,
            url=str(url) if url else None,
        )
        return payload_found(payload, score, source)


def distinct(found: Sequence[Found]) -> list[Found]:
    """Without repeated texts, in the same order."""
    first: dict[str, Found] = {}
    for one in found:
        first.setdefault(" ".join(one.text.split()), one)
    return list(first.values())


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
