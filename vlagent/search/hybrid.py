"""Words and vectors together: the lists of several indexes become one by reciprocal rank fusion.

Cormack, Clarke and Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods"
(SIGIR 2009). It can be worse than the better half: `benchmarks/retrieval.py` measures all three.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence, Sized
from dataclasses import replace

from vlagent.search.base import TextQuery
from vlagent.search.retrieval import Found, PassageSearch
from vlagent.types import Hit

RANK = 60
"""The constant of the paper: how little the first places stand out."""
DEPTH = 50
"""Passages that each index is asked for, at least."""


class HybridIndex:
    """A `TextSearch` and a `PassageSearch` over several indexes of the same passages."""

    def __init__(
        self, parts: Sequence[PassageSearch], *, weights: Sequence[float] = (), rank: int = RANK, depth: int = DEPTH
    ) -> None:
        """`weights` of the parts are equal where none are given; a part of weight 0 is not asked."""
        self.weights = tuple(weights) or (1.0,) * len(parts)
        self._parts = [(part, weight) for part, weight in zip(parts, self.weights, strict=True) if weight > 0]
        self._rank, self._depth = rank, depth

    def __len__(self) -> int:
        """Passages in the largest of them."""
        return max(len(part) for part, _ in self._parts if isinstance(part, Sized))

    async def search(self, query: TextQuery) -> list[Hit]:
        """The best of all indexes; ServiceError if one of them fails."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: TextQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        return [found.hit() for found in self.passages([query.text], query.top_k)[0]]

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]:
        """The best passages of each query; the scores are those of the fusion."""
        if top_k <= 0:
            return [[] for _ in queries]
        depth = max(self._depth, 2 * top_k)
        answers = [part.passages(queries, depth) for part, _ in self._parts]
        weights = [weight for _, weight in self._parts]
        return [
            fuse([answer[number] for answer in answers], weights, self._rank)[:top_k] for number in range(len(queries))
        ]


def fuse(lists: Sequence[Sequence[Found]], weights: Sequence[float], rank: int = RANK) -> list[Found]:
    """Each passage scores the sum of weight / (rank + place) over the lists that hold it; places count from 1."""
    scores: dict[tuple[str, str], float] = {}
    first: dict[tuple[str, str], Found] = {}
    for found, weight in zip(lists, weights, strict=True):
        for place, one in enumerate(found, 1):
            key = (one.title, one.text)
            scores[key] = scores.get(key, 0.0) + weight / (rank + place)
            first.setdefault(key, one)
    order = sorted(scores, key=lambda key: (-scores[key], first[key].id))
    return [replace(first[key], score=scores[key]) for key in order]
