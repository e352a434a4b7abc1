"""Make and refresh an index of passages: incremental, resumable, one writer."""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import tantivy

from vlagent.errors import UserError
from vlagent.search.documents import is_document, read_documents
from vlagent.search.ledger import Entry, IndexReport, Ledger, Marker, digest, plan, writing
from vlagent.search.passages import Passage, passages
from vlagent.search.readers import Unreadable
from vlagent.search.retrieval import payload_of
from vlagent.search.text_index import VERSION, open_tantivy, schema, shard_names
from vlagent.search.walk import Walk, address, shown, walk
from vlagent.search.words import index_words, inflected
from vlagent.types import Record

Progress = Callable[[int, int, str], None]
"""Told (files done, files to do, current file)."""


COMMIT_S = 15.0
"""Slow files (PDF) are committed by the clock, so that a kill costs little."""


MIN_HEAP = 16_000_000
"""Bytes a thread; tantivy refuses less."""
BLOCK = 4096
"""Passages in a row of one file that go to the same shard."""
MAX_SHARDS = 64


class TextOptions(Record):
    """How documents become passages."""

    passage_words: int = 180
    """The most words of a passage."""
    max_mb: float = 100.0
    """Larger files are listed as unreadable (JSONL corpora are streamed and have no limit)."""
    skip: tuple[str, ...] = ()
    """Glob patterns of file names or paths to leave out."""
    commit_every: int = 20_000
    """Passages between two commits: what a kill can cost."""
    threads: int = 2
    heap_mb: int = 128
    """Of all shards together."""
    shards: int = 1
    """Parts that are written and searched side by side; for corpora of many millions of passages, one a core."""


def index_text(
    sources: Sequence[Path],
    search: Path,
    options: TextOptions | None = None,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring `search`/text up to date with the documents below `sources`.

    Unchanged files are skipped, changed ones replaced, deleted ones removed; a file that cannot be read is listed and
    never stops the run. Raises UserError if there is nothing to index or the folder cannot be used.
    """
    options, started, folder = options or TextOptions(), time.monotonic(), search / "text"
    if options.passage_words < 10:
        raise UserError(f"passage_words = {options.passage_words}: at least 10")
    if not 0 < options.max_mb < 1e6:
        raise UserError(f"max_mb = {options.max_mb:g}: more than 0, and less than a million")
    found = walk(sources, is_document, options.skip)
    if not found.files:
        names = ", ".join(shown(source) for source in sources)
        raise UserError(f"{names}: no document to index (TXT, Markdown, HTML, PDF, DOCX, CSV, JSONL)")
    if not 1 <= options.shards <= MAX_SHARDS:
        raise UserError(f"shards = {options.shards}: 1 to {MAX_SHARDS}")
    shape = {"passage_words": options.passage_words} | ({"shards": options.shards} if options.shards > 1 else {})
    marker = Marker(kind="text", version=VERSION, options=dict(shape))
    with writing(folder, marker, rebuild=rebuild) as ledger:
        run = _Run(folder, options, ledger)
        report = run.refresh(found, sources, progress or (lambda *_: None))
    return report.model_copy(update={"seconds": time.monotonic() - started})


@dataclass
class _Run:
    """One run of the indexer, which holds the lock."""

    folder: Path
    options: TextOptions
    ledger: Ledger
    problems: list[tuple[str, str]] = field(default_factory=list)
    pending: dict[str, Entry | None] = field(default_factory=dict)
    """Files whose passages wait for the next commit."""
    waiting: int = 0
    committed: float = field(default_factory=time.monotonic)

    def refresh(self, found: Walk, sources: Sequence[Path], progress: Progress) -> IndexReport:
        known = self.ledger.entries()
        todo = plan(known, found.files, sources)
        writer = _Writer(self.folder, self.options)
        for file in todo.gone:
            self._delete(writer, file)
            self.pending[file] = None
        self.pending |= todo.touched
        jobs = sorted([*todo.new, *todo.changed, *todo.unfinished])
        for done, file in enumerate(jobs):
            progress(done, len(jobs), shown(file))
            self._replace(writer, file, found.files[file], known.get(file), file in todo.unfinished)
            if time.monotonic() - self.committed > COMMIT_S:
                self._commit(writer)
        self._commit(writer)
        writer.close()
        progress(len(jobs), len(jobs), "")
        after = self.ledger.entries()
        return IndexReport(
            files=len(after),
            parts=sum(entry.parts for entry in after.values()),
            added=sum(file in after for file in (*todo.new, *todo.unfinished)),
            changed=sum(file in after for file in todo.changed),
            removed=len(todo.gone) + sum(file not in after for file in todo.changed),
            unchanged=todo.unchanged,
            skipped=found.skipped,
            unreadable=(*found.problems, *self.problems),
        )

    def _replace(self, writer: _Writer, file: str, state: os.stat_result, old: Entry | None, resume: bool) -> None:
        """Index one file; what was there under its name goes, except the safe beginning of an unfinished one."""
        skip = old.parts if old and resume else 0
        self._delete(writer, file, skip)
        stamp = (state.st_size, state.st_mtime_ns, digest(file))
        count = skip
        try:
            for ordinal, passage in enumerate(islice(self._passages(file), skip, None), skip):
                writer.add(self._key(file), ordinal, self._document(file, ordinal, passage))
                count = ordinal + 1
                self.waiting += 1
                if self.waiting >= self.options.commit_every:
                    self.pending[file] = Entry(*stamp, parts=count, done=False)
                    self._commit(writer)
        except Unreadable as error:
            self.problems.append((shown(file), str(error)))
        else:
            if not count:
                hint = " (a scan? add the text with an OCR program first)" if file.lower().endswith(".pdf") else ""
                self.problems.append((shown(file), f"no text in it{hint}"))
        self.pending[file] = Entry(*stamp, parts=count, done=True) if count else None

    def _passages(self, file: str) -> Iterator[Passage]:
        notes: list[str] = []
        limit = int(self.options.max_mb * 1e6)
        for number, document in enumerate(read_documents(file, limit, notes.append)):
            yield from passages(document, self.options.passage_words, number)
        if notes:
            more = f" and {len(notes) - 3} more" if len(notes) > 3 else ""
            self.problems.append((shown(file), "; ".join(notes[:3]) + more))

    def _document(self, file: str, ordinal: int, passage: Passage) -> Any:
        payload = payload_of(shown(address(file, self.folder)), ordinal, passage)
        document = tantivy.Document()
        document.add_text("file", self._key(file))
        document.add_unsigned("ordinal", ordinal)
        document.add_text("title", " ".join(index_words(passage.title)))
        words = index_words(passage.text)
        document.add_text("words", " ".join(words))
        document.add_text("exact", " ".join(inflected(words)))
        document.add_bytes("payload", json.dumps(payload, ensure_ascii=False).encode())
        return document

    def _delete(self, writer: _Writer, file: str, first: int = 0) -> None:
        writer.delete(self._key(file), first)

    def _key(self, file: str) -> str:
        """The address with its exact bytes, as text that tantivy takes."""
        return os.fsencode(address(file, self.folder)).decode("utf-8", "backslashreplace")

    def _commit(self, writer: _Writer) -> None:
        writer.commit()
        with self.ledger.transaction():
            self.ledger.write(self.pending)
        self.pending, self.waiting, self.committed = {}, 0, time.monotonic()


class _Writer:
    """The shards of one index. Which shard a passage is in follows from its address alone."""

    def __init__(self, folder: Path, options: TextOptions) -> None:
        names = shard_names(options.shards)
        threads = max(1, options.threads // len(names))
        heap = max(options.heap_mb * 1_000_000 // len(names), MIN_HEAP * threads)
        self._writers = [open_tantivy(folder, name).writer(heap, threads) for name in names]

    def add(self, key: str, ordinal: int, document: Any) -> None:
        """Add the passage `ordinal` of a file."""
        place = (zlib.crc32(key.encode()) + ordinal // BLOCK) % len(self._writers)
        self._writers[place].add_document(document)

    def delete(self, key: str, first: int = 0) -> None:
        """Remove the passages of a file from ordinal `first` on."""
        for writer in self._writers:
            if first:
                writer.delete_documents_by_query(_later(key, first))
            else:
                writer.delete_documents_by_term("file", key)

    def commit(self) -> None:
        """All shards; the caller's ledger comes after, so that a kill in between is repaired by the next run."""
        for writer in self._writers:
            writer.commit()

    def close(self) -> None:
        """Wait for the merges."""
        for writer in self._writers:
            writer.wait_merging_threads()


def _later(key: str, first: int) -> Any:
    of_file = tantivy.Query.term_query(schema(), "file", key, index_option="basic")
    later = tantivy.Query.range_query(
        schema(), "ordinal", tantivy.FieldType.Unsigned, lower_bound=first, use_inverted_index=True
    )
    return tantivy.Query.boolean_query([(tantivy.Occur.Must, of_file), (tantivy.Occur.Must, later)])
