"""Make and refresh a dense index of the same documents as a text index: incremental, resumable, one writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from vlagent.errors import UserError
from vlagent.search.dense_embedders import STATIC, Embedder, open_embedder
from vlagent.search.dense_store import VERSION, DenseReader, DenseWriter
from vlagent.search.dense_vectors import Kind, refresh_vectors
from vlagent.search.documents import is_document, read_documents
from vlagent.search.ledger import Entry, IndexReport, Ledger, Marker, digest, plan, writing
from vlagent.search.passages import Passage, passages
from vlagent.search.readers import Unreadable
from vlagent.search.retrieval import payload_of
from vlagent.search.walk import Walk, address, shown, walk
from vlagent.types import Record

T = TypeVar("T")
Progress = Callable[[int, int, str], None]
"""Told (files done, files to do, current file)."""


class DenseOptions(Record):
    """How documents become vectors."""

    embedder: str = STATIC
    """`static`, or a sentence-transformers model by name or folder."""
    kind: Kind = "ivf-sq8"
    """How the vectors are searched; may change from run to run, nothing is embedded again."""
    passage_words: int = 180
    max_mb: float = 100.0
    skip: tuple[str, ...] = ()
    batch: int = 256
    """Passages that are embedded at once."""
    commit_every: int = 8192
    """Passages between two commits: what a kill can cost."""


def index_dense(
    sources: Sequence[Path],
    search: Path,
    options: DenseOptions | None = None,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
    embedder: Embedder | None = None,
) -> IndexReport:
    """Bring `search`/dense up to date with the documents below `sources`, as `index_text` does for words.

    `embedder` stands in for the one that the options name. Raises UserError like `index_text`.
    """
    options, started, folder = options or DenseOptions(), time.monotonic(), search / "dense"
    if options.passage_words < 10:
        raise UserError(f"passage_words = {options.passage_words}: at least 10")
    if not 0 < options.max_mb < 1e6:
        raise UserError(f"max_mb = {options.max_mb:g}: more than 0, and less than a million")
    found = walk(sources, is_document, options.skip)
    if not found.files:
        raise UserError(f"{', '.join(shown(source) for source in sources)}: no document to index")
    model = embedder or open_embedder(options.embedder)
    shape = {"passage_words": options.passage_words, "embedder": options.embedder, "dim": model.dim}
    with writing(folder, Marker(kind="dense", version=VERSION, options=dict(shape)), rebuild=rebuild) as ledger:
        run = _Run(folder, options, ledger, model)
        report = run.refresh(found, sources, progress or (lambda *_: None))
        store = DenseReader(folder, model.dim)
        refresh_vectors(folder, store.vectors, store.dead, options.kind)
    return report.model_copy(update={"seconds": time.monotonic() - started})


@dataclass
class _Run:
    """One run of the indexer, which holds the lock."""

    folder: Path
    options: DenseOptions
    ledger: Ledger
    model: Embedder
    problems: list[tuple[str, str]] = field(default_factory=list)
    pending: dict[str, Entry | None] = field(default_factory=dict)
    waiting: int = 0

    def refresh(self, found: Walk, sources: Sequence[Path], progress: Progress) -> IndexReport:
        known = self.ledger.entries()
        todo = plan(known, found.files, sources)
        writer = DenseWriter(self.ledger, self.folder, self.model.dim)
        try:
            self._forget(writer, todo.gone)
            self.pending |= todo.touched
            jobs = sorted([*todo.new, *todo.changed, *todo.unfinished])
            for done, file in enumerate(jobs):
                progress(done, len(jobs), shown(file))
                self._replace(writer, file, found.files[file], known.get(file), file in todo.unfinished)
            self._commit(writer)
        finally:
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

    def _forget(self, writer: DenseWriter, files: Sequence[str]) -> None:
        with self.ledger.transaction():
            for file in files:
                writer.delete(file)
            self.ledger.write(dict.fromkeys(files))

    def _replace(self, writer: DenseWriter, file: str, state: os.stat_result, old: Entry | None, resume: bool) -> None:
        skip = old.parts if old and resume else 0
        with self.ledger.transaction():
            writer.delete(file, skip)
        stamp, count = (state.st_size, state.st_mtime_ns, digest(file)), skip
        try:
            for batch in _batches(islice(enumerate(self._passages(file)), skip, None), self.options.batch):
                self._add(writer, file, batch)
                count = batch[-1][0] + 1
                if self.waiting >= self.options.commit_every:
                    self.pending[file] = Entry(*stamp, parts=count, done=False)
                    self._commit(writer)
        except Unreadable as error:
            self.problems.append((shown(file), str(error)))
        else:
            if not count:
                self.problems.append((shown(file), "no text in it"))
        self.pending[file] = Entry(*stamp, parts=count, done=True) if count else None

    def _add(self, writer: DenseWriter, file: str, batch: Sequence[tuple[int, Passage]]) -> None:
        name = shown(address(file, self.folder))
        vectors = self.model.passages([f"{passage.title}\n{passage.text}" for _, passage in batch])
        payloads = [payload_of(name, ordinal, passage) for ordinal, passage in batch]
        writer.add(file, [ordinal for ordinal, _ in batch], payloads, vectors)
        self.waiting += len(batch)

    def _passages(self, file: str) -> Iterator[Passage]:
        notes: list[str] = []
        for number, document in enumerate(read_documents(file, int(self.options.max_mb * 1e6), notes.append)):
            yield from passages(document, self.options.passage_words, number)
        if notes:
            self.problems.append((shown(file), "; ".join(notes[:3])))

    def _commit(self, writer: DenseWriter) -> None:
        with self.ledger.transaction():
            writer.commit()
            self.ledger.write(self.pending)
        self.pending, self.waiting = {}, 0


def _batches(items: Iterator[T], size: int) -> Iterator[list[T]]:
    while batch := list(islice(items, size)):
        yield batch
