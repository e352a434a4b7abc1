"""The nearest vectors by faiss: exact, or by inverted lists with a byte or about a bit a number, re-ranked.

Bytes a vector of d numbers: `flat` 4 d, `ivf-sq8` d + 8 or so, `ivf-rabitq` d / 8 + 16 or so. Files are memory-mapped.
Gao and Long, "RaBitQ: quantizing high-dimensional vectors with a theoretical error bound for approximate nearest
neighbor search" (SIGMOD 2024).

Shape letters: n = rows, q = queries, d = numbers of a vector.
"""

from __future__ import annotations

import logging
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vlagent.errors import UserError
from vlagent.files import read_json, write_json
from vlagent.search.dense_embedders import Floats
from vlagent.types import Record

Kind = Literal["flat", "ivf-sq8", "ivf-rabitq"]
KINDS: dict[str, str] = {"flat": "IDMap2,Flat", "ivf-sq8": "IVF{lists},SQ8", "ivf-rabitq": "RR{d},IVF{lists},RaBitQ"}
"""What faiss calls them."""
STATE = "faiss.json"
PER_LIST = 39
"""Training vectors a list that faiss asks for."""
GROWTH = 4
"""An index that has grown by this factor is trained anew."""
DEAD_SHARE = 0.2
"""Of its rows; with more of them dead it is made anew."""
CHUNK = 65_536
"""Rows that are added at once."""

Halves = NDArray[np.float16]


class FaissState(Record):
    """Which faiss file is valid and what it covers."""

    kind: Kind
    file: str
    rows: int
    """Rows of the store that it has seen."""
    held: int
    """Vectors in it, dead ones too."""
    trained_on: int
    lists: int = 0


def refresh_vectors(folder: Path, vectors: Halves, dead: NDArray[np.int64], kind: Kind) -> FaissState:
    """Bring the faiss file up to date with the rows of the store: by adding what is new, or anew.

    The new file is complete before the state names it; a kill leaves the old one in force.
    """
    known = read_state(folder)
    gone = known.held - (known.rows - int(np.count_nonzero(dead < known.rows))) if known else 0
    live = len(vectors) - len(dead)
    anew = (
        known is None
        or known.kind != kind
        or live > GROWTH * max(known.trained_on, 1)
        or gone > DEAD_SHARE * max(known.held, 1)
    )
    if known is not None and not anew and known.rows == len(vectors):
        return known
    if known is None or anew:
        index, lists = _train(vectors, dead, kind)
        before, held, trained_on = 0, 0, live
    else:
        index = _faiss().read_index(str(folder / known.file))
        lists, before, held, trained_on = known.lists, known.rows, known.held, known.trained_on
    held += _add(index, vectors, dead, before)
    state = FaissState(
        kind=kind,
        file=f"vectors-{len(vectors)}-{held}.faiss",
        rows=len(vectors),
        held=held,
        trained_on=trained_on,
        lists=lists,
    )
    _replace(folder, index, state)
    return state


def read_state(folder: Path) -> FaissState | None:
    """What `refresh_vectors` left, if it ever ended."""
    path = folder / STATE
    return FaissState.model_validate(read_json(path)) if path.exists() else None


def open_vectors(path: Path) -> Any:
    """A faiss index of any kind, memory-mapped where this faiss can."""
    faiss = _faiss()
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-160:]
        raise UserError(f"{path}: not an index that faiss reads ({reason})") from None


class Nearest:
    """Rows by their dot product with a query."""

    def __init__(self, index: Any, kind: Kind, dead: NDArray[np.int64], vectors: Halves | None = None) -> None:
        self._index, self._dead, self._vectors = index, dead, vectors
        self._faiss = _faiss()
        self._selector = self._faiss.IDSelectorNot(self._faiss.IDSelectorBatch(dead)) if len(dead) else None
        self.exact = kind == "flat"

    def search(self, queries: Floats, count: int, *, probes: int, rerank: int) -> tuple[Floats, NDArray[np.int64]]:
        """Scores and row numbers, each [q, count], best first; -1 where there is no more.

        `rerank` times as many candidates are ordered by their float16 vectors, where the index is not exact.
        """
        again = not self.exact and self._vectors is not None and rerank > 1
        wide = max(count * rerank, 32) if again else count
        scores, numbers = self._index.search(np.ascontiguousarray(queries), wide, params=self._parameters(probes))
        if again:
            scores, numbers = self._reranked(queries, numbers)
        return scores[:, :count], numbers[:, :count]

    def _parameters(self, probes: int) -> Any:
        if self.exact:
            return self._faiss.SearchParameters(sel=self._selector) if self._selector else None
        given = {"nprobe": probes} | ({"sel": self._selector} if self._selector else {})
        inner = self._faiss.SearchParametersIVF(**given)
        if isinstance(self._index, self._faiss.IndexPreTransform):
            return self._faiss.SearchParametersPreTransform(index_params=inner)
        return inner

    def _reranked(self, queries: Floats, numbers: NDArray[np.int64]) -> tuple[Floats, NDArray[np.int64]]:
        assert self._vectors is not None
        scores = np.full(numbers.shape, -np.inf, np.float32)
        for row, candidates in enumerate(numbers):
            there = np.flatnonzero(candidates >= 0)
            exact = self._vectors[candidates[there]].astype(np.float32) @ queries[row]
            scores[row, there] = exact
        order = np.argsort(-scores, axis=1, kind="stable")
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(numbers, order, axis=1)


def lists_for(rows: int) -> int:
    """Inverted lists for so many rows: 4 sqrt(n), as far as there is enough to train them."""
    return max(1, min(int(4 * math.sqrt(rows)), rows // PER_LIST))


def _train(vectors: Halves, dead: NDArray[np.int64], kind: Kind) -> tuple[Any, int]:
    faiss, dim = _faiss(), vectors.shape[1]
    live = np.setdiff1d(np.arange(len(vectors)), dead)
    lists = lists_for(len(live))
    index = faiss.index_factory(dim, KINDS[kind].format(lists=lists, d=dim), faiss.METRIC_INNER_PRODUCT)
    if not index.is_trained:
        sample = live[:: max(1, len(live) // (lists * 2 * PER_LIST))]
        data = vectors[sample].astype(np.float32) if len(sample) else np.zeros((1, dim), np.float32)
        faiss.extract_index_ivf(index).cp.min_points_per_centroid = 1
        index.train(data)
    return index, 0 if kind == "flat" else lists


def _add(index: Any, vectors: Halves, dead: NDArray[np.int64], first: int) -> int:
    added = 0
    for start in range(first, len(vectors), CHUNK):
        numbers = np.setdiff1d(np.arange(start, min(start + CHUNK, len(vectors))), dead)
        if len(numbers):
            index.add_with_ids(vectors[numbers].astype(np.float32), numbers)
            added += len(numbers)
    return added


def _replace(folder: Path, index: Any, state: FaissState) -> None:
    path = folder / state.file
    partial = folder / f"{state.file}.tmp"
    _faiss().write_index(index, str(partial))
    partial.replace(path)
    write_json(folder / STATE, state)
    for old in folder.glob("vectors-*.faiss*"):
        if old != path:
            old.unlink()


def _faiss() -> Any:
    if find_spec("faiss") is None:
        raise UserError("a dense index needs faiss: pip install 'vlagent[dense]'")
    logging.getLogger("faiss").setLevel(logging.WARNING)
    import faiss

    return faiss


def probes_for(lists: int) -> int:
    """Inverted lists that a query looks into: what keeps nine tenths of the true neighbours in `benchmarks/`."""
    return max(16, int(2 * math.sqrt(lists)))
