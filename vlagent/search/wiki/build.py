"""A MediaWiki dump to titled passages of about a hundred words, then to a text index: streamed, resumable, any size.

`SEARCH/wiki` gets `passages-00000.jsonl`, ... in the form of Search-R1's corpus and `wiki.sqlite` with the place in the
dump and the redirects. Passages are written first, then one transaction commits the place, the sizes and the redirects;
after a kill the torn tail is cut off and reading goes on at that place.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from threading import Thread

from pydantic import Field

from vlagent.errors import UserError
from vlagent.files import only_writer
from vlagent.search.ledger import IndexReport
from vlagent.search.passages import Document, Section, passages
from vlagent.search.text_build import TextOptions, index_text
from vlagent.search.walk import shown
from vlagent.search.wiki.aliases import NAME, alias_rows
from vlagent.search.wiki.dump import DumpReader, Page, Place, Site
from vlagent.types import Record

VERSION = 1
BATCH = 32
"""Pages that a worker cleans at once."""
_TABLES = """
CREATE TABLE IF NOT EXISTS state (id INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS aliases (name TEXT PRIMARY KEY, title TEXT) WITHOUT ROWID;
"""


class WikiOptions(Record):
    """How a dump becomes passages."""

    words: int = 100
    """The most words of a passage."""
    namespaces: tuple[int, ...] = (0,)
    """Of the pages that are taken; 0 are articles."""
    workers: int = Field(default_factory=lambda: max(1, (os.cpu_count() or 1) - 1))
    """Processes that clean markup; 1 is this process alone."""
    per_file: int = 500_000
    """Passages of a file."""
    commit_s: float = 10.0
    """Seconds between two commits: what a kill can cost."""
    shards: int = 1
    """Of the text index."""


class WikiProgress(Record):
    """How far a run is."""

    packed_bytes: int
    total_bytes: int
    pages: int
    passages: int
    pages_per_s: float
    """Of this run."""
    eta_s: float | None
    """Until the dump is read; None where nothing can be said yet."""


class _State(Record):
    """What the last commit has made safe."""

    version: int
    dump: str
    size: int
    words: int
    namespaces: tuple[int, ...]
    base: str = ""
    media: tuple[str, ...] = ()
    offset: int = 0
    skip: int = 0
    pages: int = 0
    passages: int = 0
    redirects: int = 0
    file: int = 0
    file_bytes: int = 0
    file_passages: int = 0
    done: bool = False


class WikiReport(Record):
    """What the index of a dump holds."""

    pages: int
    passages: int
    redirects: int
    seconds: float
    index: IndexReport


def index_wiki(
    dump: Path,
    search: Path,
    options: WikiOptions | None = None,
    *,
    rebuild: bool = False,
    progress: Callable[[WikiProgress], None] | None = None,
    index_progress: Callable[[int, int, str], None] | None = None,
) -> WikiReport:
    """Make `search`/wiki and `search`/text of a dump; the same call goes on with one that was stopped.

    `progress` is told how far the dump is read, then `index_progress` of files done, files to do and the current one.
    Raises UserError if the dump cannot be read, or the folder holds another one.
    """
    options, started = options or WikiOptions(), time.monotonic()
    if options.words < 10:
        raise UserError(f"words = {options.words}: at least 10")
    if find_spec("mwparserfromhell") is None:
        raise UserError("index wiki needs mwparserfromhell: pip install 'vlagent[wiki]'")
    if not dump.is_file():
        raise UserError(f"{shown(dump)}: no such file")
    folder = search / "wiki"
    with only_writer(folder):
        if rebuild:
            _empty(folder)
        with closing(sqlite3.connect(folder / NAME, isolation_level=None)) as database:
            run = _Run(folder, dump, options, database, progress or (lambda _: None))
            state = run.read()
    # The passages are made: the index must not cut those that were asked to be longer than its own.
    text = TextOptions(shards=options.shards, passage_words=max(TextOptions().passage_words, options.words))
    index = index_text([folder], search, text, rebuild=rebuild, progress=index_progress)
    return WikiReport(
        pages=state.pages,
        passages=state.passages,
        redirects=state.redirects,
        seconds=time.monotonic() - started,
        index=index,
    )


@dataclass
class _Run:
    folder: Path
    dump: Path
    options: WikiOptions
    database: sqlite3.Connection
    progress: Callable[[WikiProgress], None]
    lines: list[str] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)

    def read(self) -> _State:
        """From the last commit to the end of the dump."""
        self.database.executescript(_TABLES)
        state = self._begin()
        if state.done:
            return state
        site = Site(state.base, state.media) if state.offset else Site()
        reader = DumpReader(self.dump, Place(state.offset, state.skip), site)
        first, started = state.pages, time.monotonic()
        committed = started
        with _cleaner(self.options.workers) as clean:
            for page, place, records in self._cleaned(reader, clean):
                state = self._take(state, page, place, records)
                now = time.monotonic()
                if now - committed > self.options.commit_s or len(self.lines) >= self.options.per_file:
                    state = self._commit(state.model_copy(update=_site_of(reader)))
                    committed = now
                    self.progress(_progress(reader, state, first, now - started))
        state = self._commit(state.model_copy(update={**_site_of(reader), "done": True}))
        self.progress(_progress(reader, state, first, time.monotonic() - started))
        return state

    def _begin(self) -> _State:
        row = self.database.execute("SELECT value FROM state").fetchone()
        size = self.dump.stat().st_size
        fresh = _State(
            version=VERSION,
            dump=self.dump.name,
            size=size,
            words=self.options.words,
            namespaces=self.options.namespaces,
        )
        state = _State.model_validate_json(row[0]) if row else fresh
        for key in ("version", "dump", "size", "words", "namespaces"):
            if getattr(state, key) != getattr(fresh, key):
                raise UserError(
                    f"{shown(self.folder)}: made with {key} {getattr(state, key)}, this run has {getattr(fresh, key)}; "
                    "start anew with --rebuild, or choose another folder"
                )
        self._cut(state)
        return state

    def _cut(self, state: _State) -> None:
        """Drop what was written after the last commit."""
        for path in self.folder.glob("passages-*.jsonl"):
            if path.name > _name(state.file):
                path.unlink()
        current = self.folder / _name(state.file)
        if current.exists():
            os.truncate(current, state.file_bytes)

    def _cleaned(
        self, reader: DumpReader, clean: Callable[[list[Page], Site, int], Future[list[list[str]]]]
    ) -> Iterator[tuple[Page, Place, list[str]]]:
        """Pages in their order, each with its passages as lines; a few batches are under way at once."""
        pages, under_way = iter(reader), deque[tuple[list[tuple[Page, Place]], Future[list[list[str]]]]]()
        more = True
        while more or under_way:
            batch = list(islice(pages, BATCH)) if more else []
            more = bool(batch)
            if batch:
                wanted = [page if self._wanted(page) else Page(page.id, "", 0, "") for page, _ in batch]
                under_way.append((batch, clean(wanted, reader.site, self.options.words)))
            if under_way and (not more or len(under_way) > 2 * self.options.workers):
                done, result = under_way.popleft()
                for (page, place), lines in zip(done, result.result(), strict=True):
                    yield page, place, lines

    def _wanted(self, page: Page) -> bool:
        return page.namespace in self.options.namespaces and page.redirect is None and page.model == "wikitext"

    def _take(self, state: _State, page: Page, place: Place, lines: list[str]) -> _State:
        redirect = page.redirect is not None and page.namespace in self.options.namespaces
        if page.redirect is not None and redirect:
            self.aliases += alias_rows([(page.title, page.redirect.split("#")[0])])
        self.lines += lines
        return state.model_copy(
            update={
                "offset": place.offset,
                "skip": place.pages,
                "pages": state.pages + bool(lines),
                "redirects": state.redirects + redirect,
            }
        )

    def _commit(self, state: _State) -> _State:
        file, size, count = state.file, state.file_bytes, state.file_passages
        for start in range(0, len(self.lines), self.options.per_file):
            part = self.lines[start : start + self.options.per_file]
            if count >= self.options.per_file:
                file, size, count = file + 1, 0, 0
            size, count = _append(self.folder / _name(file), part), count + len(part)
        state = state.model_copy(
            update={
                "file": file,
                "file_bytes": size,
                "file_passages": count,
                "passages": state.passages + len(self.lines),
            }
        )
        self.database.execute("BEGIN IMMEDIATE")
        self.database.executemany("INSERT OR REPLACE INTO aliases VALUES (?, ?)", self.aliases)
        self.database.execute("INSERT OR REPLACE INTO state VALUES (0, ?)", (state.model_dump_json(),))
        self.database.execute("COMMIT")
        self.lines, self.aliases = [], []
        return state


def passages_of(pages: list[Page], site: Site, words: int) -> list[list[str]]:
    """Each page as lines of JSON: {"id": "PAGE.NUMBER", "contents": "\\"Title\\"\\ntext", "url"}."""
    from vlagent.search.wiki.markup import page_text

    return [_lines(page, site, page_text(page.text, site.media), words) if page.text else [] for page in pages]


def _lines(page: Page, site: Site, text: str, words: int) -> list[str]:
    lines = []
    for number, passage in enumerate(passages(Document(page.title, [Section(text)]), words)):
        contents = f'"{passage.title}"\n{passage.text}'
        row = {"id": f"{page.id}.{number}", "contents": contents, "url": site.url(page.title)}
        lines.append(json.dumps({key: value for key, value in row.items() if value}, ensure_ascii=False) + "\n")
    return lines


@contextmanager
def _cleaner(workers: int) -> Iterator[Callable[[list[Page], Site, int], Future[list[list[str]]]]]:
    if workers <= 1:
        yield _at_once
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_end_with_parent) as pool:
        yield lambda pages, site, words: pool.submit(passages_of, pages, site, words)


def _at_once(pages: list[Page], site: Site, words: int) -> Future[list[list[str]]]:
    future: Future[list[list[str]]] = Future()
    future.set_result(passages_of(pages, site, words))
    return future


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _site_of(reader: DumpReader) -> dict[str, object]:
    return {"base": reader.site.base, "media": reader.site.media}


def _progress(reader: DumpReader, state: _State, first: int, seconds: float) -> WikiProgress:
    begun = reader.start.offset
    rate = (reader.packed_bytes - begun) / seconds if seconds > 0 else 0.0
    return WikiProgress(
        packed_bytes=reader.packed_bytes,
        total_bytes=state.size,
        pages=state.pages,
        passages=state.passages,
        pages_per_s=(state.pages - first) / seconds if seconds > 0 else 0.0,
        eta_s=(state.size - reader.packed_bytes) / rate if rate > 0 else None,
    )


def _name(number: int) -> str:
    return f"passages-{number:05}.jsonl"


def _append(path: Path, lines: list[str]) -> int:
    """Size of the file after the lines are safely in it."""
    with path.open("ab") as file:
        file.write("".join(lines).encode("utf-8", "replace"))
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith(("passages-", NAME)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
