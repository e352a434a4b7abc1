"""Ask an image search once for every picture of a data set, and write the answers in the published form.

The output folder gets `manifest.json` and one file of rows an entry, with `image_search_title_list`,
`image_search_thumbnail_list` (paths relative to the entry's root) and `image_search_summary`; rows of HR-MMSearch go
to its side file `image_search.jsonl` as well. Each answer is safe in `answers.jsonl` as soon as it is there, by the
content of its picture: a run that was stopped asks only for the rest, and what failed is asked again.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlagent import images
from vlagent.data.check import RowSet, row_sets
from vlagent.data.manifest import split_spec
from vlagent.data.rows import Pictures, read_row
from vlagent.errors import AuthError, QuotaError, ServiceError
from vlagent.files import append_jsonl, only_writer, read_json, read_records, sha256_of, write_atomic, write_json
from vlagent.search.base import ImageQuery, ImageSearch
from vlagent.types import Hit, ImageRef, Record

ANSWERS = "answers.jsonl"
SIDE_FILE = "image_search.jsonl"
THUMB = 512
"""Pixels of a thumbnail's longer side."""
SUMMARY = 2000
"""Letters of a summary, at most."""
THUMB_BYTES = 40_000
"""Of a thumbnail, for the estimate."""


class CacheOptions(Record):
    """How the search is asked."""

    top_k: int = 5
    concurrency: int = 8
    limit: int | None = None
    """The first rows of each data set."""
    call_s: float = 1.0
    """Seconds of one search, for the estimate."""
    usd_per_1000: float = 0.0
    """Price of a thousand searches, for the estimate."""


class CacheEstimate(Record):
    """What a run would do."""

    rows: int
    without_picture: int
    pictures: int
    """Different ones, by content."""
    answered: int
    """Of these, by earlier runs."""
    calls: int
    seconds: float
    usd: float
    thumbnail_mb: float


class CacheReport(Record):
    """What a run did."""

    estimate: CacheEstimate
    asked: int
    empty: int
    """Answers without a hit; they are kept as such."""
    failed: tuple[tuple[str, str], ...] = ()
    """Picture and reason; asked again by the next run."""


class _Answer(Record):
    key: str
    titles: tuple[str, ...] = ()
    thumbnails: tuple[str | None, ...] = ()
    """Names in the folder of thumbnails."""
    summary: str = ""


@dataclass
class _Wanted:
    """The rows of some data sets and the pictures that they need."""

    rows: dict[str, list[tuple[dict[str, Any], str | None]]] = field(default_factory=dict)
    """Data set -> (row, key of its first picture)."""
    pictures: dict[str, ImageRef] = field(default_factory=dict)
    """By key."""


def estimate_image_cache(spec: str, out: Path, options: CacheOptions | None = None) -> CacheEstimate:
    """What `make_image_cache` would do; nothing is asked or written. Raises UserError like it."""
    options = options or CacheOptions()
    return _estimate(_wanted(row_sets(spec), options), _answers(out), options)


async def make_image_cache(
    spec: str,
    search: ImageSearch,
    out: Path,
    options: CacheOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CacheReport:
    """Ask `search` for every picture of the data sets behind `spec` and write the published form to `out`.

    A picture whose search fails leaves its rows without the columns. Raises UserError if the rows or `out` cannot be
    used, AuthError and QuotaError as soon as the service says so (what was answered stays).
    """
    options = options or CacheOptions()
    sets = row_sets(spec)
    wanted = _wanted(sets, options)
    with only_writer(out):
        known = _answers(out)
        estimate = _estimate(wanted, known, options)
        run = _Run(search, out, options, progress or (lambda *_: None), known)
        await run.ask({key: ref for key, ref in wanted.pictures.items() if key not in known})
        _write(spec, sets, wanted, run.known, out)
    return CacheReport(estimate=estimate, asked=run.asked, empty=run.empty, failed=tuple(run.failed))


@dataclass
class _Run:
    search: ImageSearch
    out: Path
    options: CacheOptions
    progress: Callable[[int, int], None]
    known: dict[str, _Answer]
    asked: int = 0
    empty: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, pictures: Mapping[str, ImageRef]) -> None:
        queue = iter(pictures.items())

        async def work() -> None:
            for key, ref in queue:
                await self._one(key, ref)
                self.progress(self.asked + len(self.failed), len(pictures))

        tasks = [asyncio.create_task(work()) for _ in range(max(1, self.options.concurrency))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _one(self, key: str, ref: ImageRef) -> None:
        try:
            hits = await self.search.search(ImageQuery(image=ref, top_k=self.options.top_k + 1))
        except (AuthError, QuotaError):
            raise
        except ServiceError as error:
            self.failed.append((ref.path, str(error)))
            return
        others = [hit for hit in hits if hit.source.file != ref.path][: self.options.top_k]
        answer = await asyncio.to_thread(self._kept, key, others)
        append_jsonl(self.out / ANSWERS, answer)
        self.known[key] = answer
        self.asked += 1
        self.empty += not others

    def _kept(self, key: str, hits: Sequence[Hit]) -> _Answer:
        texts = [f"{hit.source.title}: {hit.text}" for hit in hits if hit.text]
        return _Answer(
            key=key,
            titles=tuple(hit.source.title for hit in hits),
            thumbnails=tuple(self._thumbnail(key, rank, hit) for rank, hit in enumerate(hits)),
            summary="\n".join(texts)[:SUMMARY],
        )

    def _thumbnail(self, key: str, rank: int, hit: Hit) -> str | None:
        """A small copy; None where there is none or its file cannot be read, the title stays."""
        ref = hit.thumbnail
        if ref is None:
            return None
        scale = min(1.0, THUMB / max(ref.width, ref.height))
        size = max(1, round(ref.width * scale)), max(1, round(ref.height * scale))
        try:
            picture = images.load(ref, size)
        except ServiceError:
            return None
        name = f"{key[:20]}_{rank}.jpg"
        (self.out / "thumbnails").mkdir(exist_ok=True)
        picture.convert("RGB").save(self.out / "thumbnails" / name, "JPEG", quality=85)
        return name


def _wanted(sets: Sequence[RowSet], options: CacheOptions) -> _Wanted:
    wanted, pictures, keys = _Wanted(), Pictures(), dict[str, str]()
    for each in sets:
        rows = wanted.rows.setdefault(each.name, [])
        for number, row in enumerate(each.rows(), 1):
            if options.limit is not None and number > options.limit:
                break
            sample = read_row(row, number, each.origin, pictures)
            ref = sample.images[0] if sample and sample.images else None
            if ref is not None and ref.path not in keys:
                keys[ref.path] = sha256_of(Path(ref.path))
                wanted.pictures.setdefault(keys[ref.path], ref)
            rows.append((dict(row), keys[ref.path] if ref else None))
    pictures.check()
    return wanted


def _answers(out: Path) -> dict[str, _Answer]:
    return {answer.key: answer for answer in read_records(out / ANSWERS, _Answer)}


def _estimate(wanted: _Wanted, known: Mapping[str, _Answer], options: CacheOptions) -> CacheEstimate:
    rows = [key for of_set in wanted.rows.values() for _, key in of_set]
    answered = sum(key in known for key in wanted.pictures)
    calls = len(wanted.pictures) - answered
    return CacheEstimate(
        rows=len(rows),
        without_picture=rows.count(None),
        pictures=len(wanted.pictures),
        answered=answered,
        calls=calls,
        seconds=calls * options.call_s / max(1, options.concurrency),
        usd=calls * options.usd_per_1000 / 1000,
        thumbnail_mb=calls * options.top_k * THUMB_BYTES / 1e6,
    )


def _write(spec: str, sets: Sequence[RowSet], wanted: _Wanted, known: Mapping[str, _Answer], out: Path) -> None:
    entries = {}
    for each in sets:
        prefix = os.path.relpath(out.resolve() / "thumbnails", each.origin.root.resolve())
        rows = [{**row, **_columns(known.get(key or ""), prefix)} for row, key in wanted.rows[each.name]]
        write_atomic(out / f"{each.name}.jsonl", "".join(_line(row) for row in rows))
        entries[each.name] = {
            **_entry_of(spec, each.name),
            "root": str(each.origin.root.resolve()),
            "annotation": f"{each.name}.jsonl",
            "length": len(rows),
        }
        side = [
            {"sample_id": row["sample_id"], **_columns(known.get(key or ""), prefix)}
            for row, key in wanted.rows[each.name]
            if "sample_id" in row
        ]
        if side:
            write_atomic(out / SIDE_FILE, "".join(_line(row) for row in side))
    write_json(out / "manifest.json", entries)


def _columns(answer: _Answer | None, prefix: str) -> dict[str, Any]:
    if answer is None:
        return {}
    return {
        "image_search_title_list": list(answer.titles),
        "image_search_thumbnail_list": [f"{prefix}/{name}" if name else None for name in answer.thumbnails],
        "image_search_summary": answer.summary,
    }


def _entry_of(spec: str, name: str) -> dict[str, Any]:
    """The entry as its manifest has it; a plain file of rows has none."""
    path, _ = split_spec(spec)
    return dict(read_json(path)[name]) if path.suffix == ".json" else {}


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
