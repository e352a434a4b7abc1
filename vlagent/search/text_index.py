"""Search in an index of passages (tantivy, BM25). `text_build.py` makes it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tantivy

from vlagent.errors import PermanentError, UserError
from vlagent.search.base import TextQuery
from vlagent.search.ledger import check_marker
from vlagent.search.walk import located, shown
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


def open_tantivy(folder: Path) -> Any:
    """Open or create the tantivy part of an index folder."""
    store = folder / "tantivy"
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
        check_marker(folder, "text", VERSION)
        self.folder = folder
        self.title_boost = title_boost
        self.per_document = per_document
        if not (folder / "tantivy").exists():
            raise UserError(f"{shown(folder)}: the index was never finished; run the same vlagent index text again")
        try:
            self._index = open_tantivy(folder)
        except (ValueError, OSError) as error:
            raise UserError(f"{shown(folder)}: damaged ({_one_line(error)}); rebuild it with --rebuild") from None

    def __len__(self) -> int:
        """Passages in the index."""
        return int(self._index.searcher().num_docs)

    async def search(self, query: TextQuery) -> list[Hit]:
        """The best passages for any text; `[]` if it holds no word, PermanentError if the index cannot be read."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: TextQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        asked = query_words(query.text)[:MAX_QUERY_WORDS]
        words = list(dict.fromkeys(stems(asked)))
        if not words or query.top_k <= 0:
            return []
        try:
            found = self._best(words, inflected(asked), 5 * query.top_k + 20)
        except (ValueError, OSError) as error:
            raise PermanentError("text index", _one_line(error)) from None
        chosen = sorted(self._varied(found)[: query.top_k], key=lambda one: one.order)
        return [self._hit(one) for one in chosen]

    def _best(self, words: list[str], exact: list[str], limit: int) -> list[_Found]:
        searcher = self._index.searcher()
        clauses = [clause for word in words for clause in self._clauses(word)]
        for word in exact:
            same = tantivy.Query.term_query(schema(), "exact", word, index_option="freq")
            clauses.append(tantivy.Query.boost_query(same, EXACT_BOOST))
        query = tantivy.Query.boolean_query([(tantivy.Occur.Should, clause) for clause in clauses])
        hits = searcher.search(query, limit, count=False).hits
        found = [_Found(float(score), json.loads(searcher.doc(at)["payload"][0])) for score, at in hits]
        return sorted(found, key=lambda one: one.order)

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

    def _hit(self, one: _Found) -> Hit:
        payload = one.payload
        source = Source(
            title=payload["title"],
            file=located(payload["file"], self.folder),
            page=payload.get("page"),
            url=payload.get("url"),
        )
        return Hit(source=source, text=payload["text"], score=one.score)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
