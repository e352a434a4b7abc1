"""Make and refresh an index of pictures: incremental, resumable, one writer."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
from pydantic import Field

from vlagent import images
from vlagent.errors import ServiceError, UserError
from vlagent.search.captions import Captions
from vlagent.search.ledger import Entry, IndexReport, Ledger, Marker, Plan, digest, plan, writing
from vlagent.search.picture_features import KEPT, Features, extract
from vlagent.search.picture_postings import refresh_segments
from vlagent.search.picture_store import VERSION, PictureStore, evenly
from vlagent.search.picture_words import PER_WORD, Vocabulary, learn, one_thread, words_for
from vlagent.search.walk import Walk, shown, walk
from vlagent.types import ImageRef, Record

Progress = Callable[[int, int, str], None]
"""Told (pictures done, pictures to do, current file)."""

SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".heif", ".avif", ".mpo")
)
SAMPLED = 300
"""Pictures that a vocabulary is learnt from, at least."""
GROWTH = 4
"""A collection that has grown by this factor gets a new vocabulary."""


class PictureOptions(Record):
    """How pictures are indexed."""

    titles: Path | None = None
    """A side file of captions for all pictures; `titles.jsonl` beside the pictures is found by itself."""
    skip: tuple[str, ...] = ()
    """Glob patterns of file names or paths to leave out."""
    commit_every: int = 64
    """Pictures between two commits: what a kill can cost."""
    threads: int = Field(default_factory=lambda: min(8, os.cpu_count() or 1))


def index_images(
    sources: Sequence[Path],
    search: Path,
    options: PictureOptions | None = None,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring `search`/images up to date with the pictures below `sources`.

    Unchanged files are skipped, changed ones replaced, deleted ones removed; a file that cannot be read is listed and
    never stops the run. Raises UserError if there is nothing to index or the folder cannot be used.
    """
    options, started, folder = options or PictureOptions(), time.monotonic(), search / "images"
    captions = Captions(options.titles)
    found = walk(sources, is_picture, options.skip)
    if not found.files:
        names = ", ".join(shown(source) for source in sources)
        raise UserError(f"{names}: no picture to index (JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF)")
    cv2.setNumThreads(1)
    with writing(folder, Marker(kind="images", version=VERSION), rebuild=rebuild) as ledger:
        store = PictureStore(ledger.connection, folder)
        run = _Run(ledger, store, captions, options, progress or (lambda *_: None))
        with one_thread():
            report = run.refresh(found, sources)
            refresh_segments(folder, store)
    return report.model_copy(update={"seconds": time.monotonic() - started})


def is_picture(path: str) -> bool:
    """Whether a file of this name is looked at."""
    return Path(path).suffix.lower() in SUFFIXES


@dataclass
class _Run:
    """One run of the indexer, which holds the lock."""

    ledger: Ledger
    store: PictureStore
    captions: Captions
    options: PictureOptions
    progress: Progress
    done: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    looked: dict[str, tuple[ImageRef, Features] | None] = field(default_factory=dict)
    """Pictures that are yet to be stored; None cannot be read."""

    def refresh(self, found: Walk, sources: Sequence[Path]) -> IndexReport:
        self.store.create()
        known = self.ledger.entries()
        todo = plan(known, found.files, sources)
        self._settle(todo, known, found)
        jobs = sorted([*todo.new, *todo.changed])
        words = self._vocabulary(jobs, len(known) - len(todo.gone) + len(todo.new))
        for start in range(0, len(jobs), self.options.commit_every):
            batch = jobs[start : start + self.options.commit_every]
            for _ in self._look([file for file in batch if file not in self.looked], len(jobs)):
                pass
            self._add(batch, words, found)
        self.progress(len(jobs), len(jobs), "")
        after = self.ledger.entries()
        return IndexReport(
            files=len(after),
            parts=len(after),
            added=sum(file in after for file in todo.new),
            changed=sum(file in after for file in todo.changed),
            removed=len(todo.gone) + sum(file not in after for file in todo.changed),
            unchanged=todo.unchanged,
            skipped=found.skipped,
            unreadable=(*found.problems, *((shown(file), reason) for file, reason in self.problems.items())),
        )

    def _settle(self, todo: Plan, known: dict[str, Entry], found: Walk) -> None:
        """What needs no look at pixels: removals, new time stamps, new captions."""
        with self.ledger.transaction():
            for file in todo.gone:
                self.store.delete(file)
            self.ledger.write(dict.fromkeys(todo.gone, None) | todo.touched)
            for file in known.keys() & found.files.keys():
                caption = self.captions.of(file)
                if self.store.caption(file) != caption:
                    self.store.set_caption(file, caption)

    def _vocabulary(self, jobs: list[str], total: int) -> Vocabulary:
        words = self.store.vocabulary()
        if words and total <= GROWTH * max(words.pictures, 1):
            return words
        sampled = max(SAMPLED, words_for(total) * PER_WORD // KEPT)
        sample = [*self.store.sample(sampled), *self._look(evenly(jobs, sampled), len(jobs))]
        words = learn(np.concatenate([np.zeros((0, 128), np.uint8), *sample]), total)
        with self.ledger.transaction():
            self.store.set_vocabulary(words)
        return words

    def _look(self, files: list[str], total: int) -> Iterator[np.ndarray]:
        """Look at some pictures, several at a time; yields their descriptors in the order of the files."""
        with ThreadPoolExecutor(self.options.threads) as pool:
            for file, seen in zip(files, pool.map(self._features, files), strict=True):
                self.progress(self.done, total, shown(file))
                self.done += 1
                self.looked[file] = seen
                if seen:
                    yield seen[1].descriptors

    def _add(self, batch: list[str], words: Vocabulary, found: Walk) -> None:
        """Store some pictures and their ledger entries in one transaction."""
        features = {file: self.looked.pop(file) for file in batch}
        with self.ledger.transaction():
            for file, seen in features.items():
                self.store.delete(file)
                if seen:
                    ref, looks = seen
                    self.store.put(file, (ref.width, ref.height), self.captions.of(file), looks, words)
            self.ledger.write({file: self._entry(file, found) if seen else None for file, seen in features.items()})

    def _entry(self, file: str, found: Walk) -> Entry:
        state = found.files[file]
        return Entry(state.st_size, state.st_mtime_ns, digest(file), parts=1, done=True)

    def _features(self, file: str) -> tuple[ImageRef, Features] | None:
        try:
            file.encode()
        except UnicodeEncodeError:
            self.problems[file] = "its name is not UTF-8; rename it"
            return None
        try:
            ref = images.probe(file, decode=False)
            return ref, extract(ref)
        except (UserError, ServiceError) as error:
            self.problems[file] = str(error).split(file, 1)[-1].strip(": ")
            return None
