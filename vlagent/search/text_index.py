"""Search in an index of passages (tantivy, BM25). `text_build.py` makes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tantivy

from vlagent.errors import PermanentError, UserError
from vlagent.search.base import TextQuery
from vlagent.search.ledger import check_marker
from vlagent.search.retrieval import Found, payload_found
from vlagent.search.walk import located, shown
from vlagent.search.wiki.aliases import open_aliases
from vlagent.search.words import analyser, exact_analyser, inflected, query_words, stems
from vlagent.types import Hit, Source

VERSION = 2
"""Of the schema, the analyser and the stored payload; raised whenever one changes."""
TITLE_BOOST = 1.5
EXACT_BOOST = 1.0
"""Of a word in the very form that was asked for, on top of what its stem earns."""
MAX_QUERY_WORDS = 96
PER_DOCUMENT = 2
"""Passages of one document among the best hits, as long as other documents have any."""


@cache
def schema() -> Any:
    """file and ordinal address a passage; title, words and exact are searched; payload is what a hit shows."""
    fields = tantivy.SchemaBuilder()
    fields.add_text_field("file", tokenizer_name="raw", index_option="basic")
    fields.add_unsigned_field("ordinal", indexed=True)
    fields.add_text_field("title", tokenizer_name="vlagent", index_option="freq")
    fields.add_text_field("words", tokenizer_name="vlagent", index_option="freq")
    fields.add_text_field("exact", tokenizer_name="vlagent_exact", index_option="freq")
    fields.add_bytes_field("payload", stored=True)
    return fields.build()


def shard_names(shards: int) -> list[str]:
    """Sub-folders of an index folder, one a shard."""
    return ["tantivy"] if shards == 1 else [f"tantivy-{number:02}" for number in range(shards)]


def open_tantivy(folder: Path, name: str = "tantivy") -> Any:
    """Open or create one shard of an index folder."""
    store = folder / name
    store.mkdir(exist_ok=True)
    index = tantivy.Index(schema(), path=str(store), reuse=True)
    index.register_tokenizer("vlagent", analyser())
    index.register_tokenizer("vlagent_exact", exact_analyser())
    return index


@dataclass(frozen=True)
class _Found:
    score: float
    payload: dict[str, Any]

    @property
    def order(self) -> tuple[float, str, int]:
        return (-round(self.score, 4), self.payload["file"], self.payload["ordinal"])


class TextIndex:
    """A `TextSearch` over the folder that `vlagent index text` made. Any string is a valid query."""

    def __init__(self, folder: Path, *, title_boost: float = TITLE_BOOST, per_document: int = PER_DOCUMENT) -> None:
        marker = check_marker(folder, "text", VERSION)
        self.folder = folder
        self.title_boost = title_boost
        self.per_document = per_document
        names = shard_names(int(marker.options.get("shards", 1)))
        if not all((folder / name).exists() for name in names):
            raise UserError(f"{shown(folder)}: the index was never finished; run the same vlagent index text again")
        try:
            self._shards = [open_tantivy(folder, name) for name in names]
        except (ValueError, OSError) as error:
            raise UserError(f"{shown(folder)}: damaged ({_one_line(error)}); rebuild it with --rebuild") from None
        self._pool = ThreadPoolExecutor(len(names)) if len(names) > 1 else None
        self._aliases = open_aliases(folder.parent)

    def __len__(self) -> int:
        """Passages in the index."""
        return sum(int(shard.searcher().num_docs) for shard in self._shards)

    async def search(self, query: TextQuery) -> list[Hit]:
        """The best passages for any text; `[]` if it holds no word, PermanentError if the index cannot be read."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: TextQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        return [self._found(one).hit() for one in self._chosen(query.text, query.top_k)]

    def passages(self, queries: Sequence[str], top_k: int) -> list[list[Found]]:
        """The best passages of each query, with their ids."""
        return [[self._found(one) for one in self._chosen(query, top_k)] for query in queries]

    def _chosen(self, text: str, top_k: int) -> list[_Found]:
        asked = query_words(text)[:MAX_QUERY_WORDS]
        if self._aliases:
            asked = list(dict.fromkeys([*asked, *query_words(" ".join(self._aliases.meant(text)))]))
        words = list(dict.fromkeys(stems(asked)))
        if not words or top_k <= 0:
            return []
        try:
            found = self._best(words, inflected(asked), 5 * top_k + 20)
        except (ValueError, OSError) as error:
            raise PermanentError("text index", _one_line(error)) from None
        return sorted(self._varied(found)[:top_k], key=lambda one: one.order)

    def _best(self, words: list[str], exact: list[str], limit: int) -> list[_Found]:
        """The best of all shards; each weighs words by its own passages, which are a fair sample of all."""
        clauses = [clause for word in words for clause in self._clauses(word)]
        for word in exact:
            same = tantivy.Query.term_query(schema(), "exact", word, index_option="freq")
            clauses.append(tantivy.Query.boost_query(same, EXACT_BOOST))
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in clauses])
        parts = (self._pool.map if self._pool else map)(lambda shard: _read(shard, query, limit), self._shards)
        return sorted((one for part in parts for one in part), key=lambda one: one.order)[:limit]

    def _clauses(self, word: str) -> list[Any]:
        in_text = tantivy.Query.term_query(schema(), "words", word, index_option="freq")
        if self.title_boost <= 0:
            return [in_text]
        in_title = tantivy.Query.term_query(schema(), "title", word, index_option="freq")
        return [in_text, tantivy.Query.boost_query(in_title, self.title_boost)]

    def _varied(self, found: list[_Found]) -> list[_Found]:
        """Without copies; documents that have had their turn come after the others."""
        first: list[_Found] = []
        later: list[_Found] = []
        texts, counts = set[str](), dict[tuple[str, int], int]()
        for one in found:
            text = " ".join(one.payload["text"].split())
            if text in texts:
                continue
            texts.add(text)
            key = (one.payload["file"], one.payload["document"])
            counts[key] = counts.get(key, 0) + 1
            (first if counts[key] <= self.per_document else later).append(one)
        return first + later

    def _found(self, one: _Found) -> Found:
        payload = one.payload
        source = Source(
            title=payload["title"],
            file=located(payload["file"], self.folder),
            page=payload.get("page"),
            url=payload.get("url"),
        )
        return payload_found(payload, one.score, source)


def _read(shard: Any, query: Any, limit: int) -> list[_Found]:
    searcher = shard.searcher()
    hits = searcher.search(query, limit, count=False).hits
    return [_Found(float(score), json.loads(searcher.doc(at)["payload"][0])) for score, at in hits]


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
