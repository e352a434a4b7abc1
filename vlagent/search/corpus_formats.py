"""Search-R1's published files as they are: `formatted_wiki.jsonl` and the e5 flat index of faiss over its lines.

Row i of the index is line i of the corpus. Both stay where they are; a folder of ours keeps their addresses and the
places of the lines.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlagent.errors import PermanentError, UserError
from vlagent.search.base import TextQuery
from vlagent.search.dense_embedders import Embedder, open_embedder
from vlagent.search.dense_vectors import open_vectors
from vlagent.search.ledger import Marker, check_marker, writing
from vlagent.search.retrieval import Found
from vlagent.search.walk import address, located, shown
from vlagent.types import Hit, Source

VERSION = 1
E5 = "intfloat/e5-base-v2"
"""What the published index was made with."""
OFFSETS = "offsets.npy"
BLOCK = 1 << 24
"""Bytes that are looked through for line ends at once."""


class LineCorpus:
    """Records of a JSON-lines file by line number, from 0. Nothing of it is held in memory."""

    def __init__(self, path: Path, offsets: NDArray[np.int64]) -> None:
        """`offsets` are what `line_offsets` gave. Raises UserError if the file has changed since."""
        if not path.exists() or path.stat().st_size != int(offsets[-1]):
            raise UserError(f"{shown(path)}: gone or changed since it was linked; run vlagent index search-r1 again")
        self.path = path
        self._offsets = offsets

    def __len__(self) -> int:
        """Lines."""
        return len(self._offsets) - 1

    def record(self, number: int) -> dict[str, Any]:
        """One record. Raises PermanentError if it cannot be read."""
        start, end = int(self._offsets[number]), int(self._offsets[number + 1])
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                row = json.loads(file.read(end - start))
        except (OSError, ValueError) as error:
            raise PermanentError("corpus", f"{shown(self.path)}: line {number + 1}: {error}") from None
        if not isinstance(row, dict) or not isinstance(row.get("contents"), str):
            raise PermanentError("corpus", f'{shown(self.path)}: line {number + 1} has no "contents"')
        return row

    def found(self, number: int, score: float) -> Found:
        """One record as a result, its contents to the letter."""
        row = self.record(number)
        title, _, body = row["contents"].partition("\n")
        named = title.strip().strip('"')
        source = Source(title=named, file=str(self.path), url=row.get("url"))
        return Found(str(row.get("id", number)), named, body, score, source, contents=row["contents"])


def line_offsets(path: Path) -> NDArray[np.int64]:
    """[lines + 1] where each line begins, and the size of the file. An empty last line is none."""
    starts, at = [np.zeros(1, np.int64)], 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            starts.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + at + 1)
            at += len(block)
    offsets = np.concatenate(starts)
    return offsets if offsets[-1] == at else np.append(offsets, at)


def link_search_r1(corpus: Path, index: Path, search: Path, *, embedder: str = E5, rebuild: bool = False) -> int:
    """Make `search`/search-r1 point at the two files; returns the number of passages.

    Raises UserError if one of them is not what it should be, or they do not belong together.
    """
    for path in (corpus, index):
        if not path.is_file():
            raise UserError(f"{shown(path)}: no such file")
    if corpus.suffix != ".jsonl":
        raise UserError(f"{shown(corpus)}: an unpacked .jsonl is needed, since lines are read in any order")
    folder = search / "search-r1"
    offsets, vectors = line_offsets(corpus), open_vectors(index)
    if vectors.ntotal != len(offsets) - 1:
        raise UserError(f"{shown(index)}: {vectors.ntotal} vectors, but {shown(corpus)} has {len(offsets) - 1} lines")
    names = {"corpus": os.path.realpath(corpus), "index": os.path.realpath(index)}
    where = {key: shown(address(name, folder)) for key, name in names.items()}
    options: dict[str, int | str] = {**where, "embedder": embedder, "dim": vectors.d}
    with writing(folder, Marker(kind="search-r1", version=VERSION, options=options), rebuild=rebuild):
        with (folder / f"{OFFSETS}.tmp").open("wb") as file:
            np.save(file, offsets)
        (folder / f"{OFFSETS}.tmp").replace(folder / OFFSETS)
    return len(offsets) - 1


class SearchR1Index:
    """A `TextSearch` and a `PassageSearch` over what `vlagent index search-r1` has linked."""

    def __init__(self, folder: Path, embedder: Embedder | None = None) -> None:
        marker = check_marker(folder, "search-r1", VERSION)
        paths = [Path(located(str(marker.options[key]), folder)) for key in ("corpus", "index")]
        if not (folder / OFFSETS).exists():
            raise UserError(f"{shown(folder)}: never finished; run the same vlagent index search-r1 again")
        self._corpus = LineCorpus(paths[0], np.load(folder / OFFSETS, mmap_mode="r"))
        self._index = open_vectors(paths[1])
        self._model = embedder or open_embedder(str(marker.options["embedder"]))
        if self._model.dim != self._index.d:
            raise UserError(
                f"{shown(paths[1])}: vectors of {self._index.d} numbers, the embedder {marker.options['embedder']} "
                f"gives {self._model.dim}; name the one that it was made with: --embedder NAME"
            )

    def __len__(self) -> int:
        """Passages."""
        return len(self._corpus)

    async def search(self, query: TextQuery) -> list[Hit]:
        """The nearest passages; PermanentError if the corpus cannot be read."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: TextQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        return [found.hit() for found in self.passages([query.text], query.top_k)[0]]

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]:
        """The nearest passages of each query."""
        if not queries or top_k <= 0 or not len(self):
            return [[] for _ in queries]
        scores, numbers = self._index.search(self._model.queries(list(queries)), min(top_k, len(self)))
        return [
            [self._corpus.found(int(at), float(score)) for at, score in zip(row, values, strict=True) if at >= 0]
            for row, values in zip(numbers, scores, strict=True)
        ]
