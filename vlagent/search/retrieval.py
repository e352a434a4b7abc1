"""Passages by batch, in the shape of Search-R1's retrieval server (`POST /retrieve`), as a library.

Jin et al., "Search-R1: Training LLMs to reason and leverage search engines with reinforcement learning" (2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from vlagent.errors import UserError
from vlagent.search.passages import Passage
from vlagent.types import Hit, Source

TOPK = 3
"""Documents a query where the caller names no number, as in the published server."""


@dataclass(frozen=True)
class Found:
    """A passage and how well it fits; the one form that every index of passages gives."""

    id: str
    """The corpus's own, or file#ordinal."""
    title: str
    text: str
    score: float
    source: Source
    contents: str | None = None
    """The record's own "Title\\nbody" where it is kept to the letter."""

    def hit(self) -> Hit:
        """As a result of a text search."""
        return Hit(source=self.source, text=self.text, score=self.score)

    def document(self) -> dict[str, str]:
        """As a result of `POST /retrieve`."""
        return {"id": self.id, "contents": self.contents or f"{self.title}\n{self.text}"}


class PassageSearch(Protocol):
    """An index of passages that takes many queries at once. A list a query, best first, at most `top_k` long."""

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]: ...


def retrieve(
    index: PassageSearch,
    queries: Sequence[str],
    topk: int | None = None,
    return_scores: bool = False,
    *,
    default_topk: int = TOPK,
) -> dict[str, Any]:
    """Answer as the server does: {"result": [[{"document": {"id", "contents"}, "score"}]]}, a list a query.

    Without scores each item is the bare document. `topk` of None or 0 is `default_topk`; one larger than the index
    gives what there is. Raises UserError for a negative one, ServiceError if the index cannot be read.
    """
    wanted = topk or default_topk
    if wanted < 0:
        raise UserError(f"topk = {topk}: 0 or more is expected")
    found = index.passages(queries, wanted) if queries else []
    return {"result": [[_item(one, return_scores) for one in of_query] for of_query in found]}


def payload_of(file: str, ordinal: int, passage: Passage) -> dict[str, Any]:
    """What an index keeps of a passage: `file` as it is stored, its place in it, and what a hit shows."""
    payload = {"file": file, "ordinal": ordinal, "document": passage.document, "title": passage.title}
    optional = {"page": passage.page, "url": passage.url, "id": passage.id}
    return payload | {key: value for key, value in optional.items() if value is not None} | {"text": passage.text}


def payload_found(payload: dict[str, Any], score: float, source: Source) -> Found:
    """A stored passage as it was found."""
    name = payload.get("id") or f"{payload['file']}#{payload['ordinal']}"
    return Found(str(name), payload["title"], payload["text"], score, source)


def _item(one: Found, return_scores: bool) -> dict[str, Any]:
    return {"document": one.document(), "score": float(one.score)} if return_scores else dict(one.document())
