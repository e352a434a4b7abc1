"""Pictures that show the same kind of thing, by CLIP or SigLIP2 through transformers (optional, loaded at first use).

It complements the picture index, which finds the very same picture. Radford et al., "Learning transferable visual
models from natural language supervision" (2021); Tschannen et al., "SigLIP 2" (2025).

Shape letters: n = pictures, d = numbers of a vector.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from vlagent import images
from vlagent.errors import ServiceError, UserError
from vlagent.search.base import ImageQuery, ImageSearch
from vlagent.search.captions import Captions
from vlagent.search.dense_embedders import Floats, unit
from vlagent.search.dense_store import DenseReader, DenseWriter
from vlagent.search.dense_vectors import Kind, Nearest, open_vectors, probes_for, read_state, refresh_vectors
from vlagent.search.ledger import Entry, IndexReport, Ledger, Marker, check_marker, digest, plan, writing
from vlagent.search.picture_build import is_picture
from vlagent.search.walk import Walk, address, located, shown, walk
from vlagent.types import Hit, ImageRef, Record, Source

VERSION = 1
LONGEST = 1024
"""Pixels of the longer side that a picture is loaded at."""
Progress = Callable[[int, int, str], None]


class PictureEmbedder(Protocol):
    """Pictures to vectors of unit length."""

    @property
    def dim(self) -> int: ...

    def pictures(self, refs: Sequence[ImageRef]) -> Floats: ...


class ClipEmbedder:
    """Any model of transformers that has `get_image_features`, by name or folder."""

    def __init__(self, name: str, *, device: str = "cpu") -> None:
        self.name, self._device = name, device

    @cached_property
    def dim(self) -> int:
        """Numbers of a vector."""
        config = self._parts[0].config
        size = getattr(config, "projection_dim", None) or config.vision_config.hidden_size
        return int(size)

    def pictures(self, refs: Sequence[ImageRef]) -> Floats:
        """[n, d]. Raises ServiceError if pixels cannot be read."""
        import torch

        model, processor = self._parts
        loaded = [images.load(ref, _size(ref)) for ref in refs]
        pixels = processor(images=loaded, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            features = model.get_image_features(**pixels)
        raw = getattr(features, "pooler_output", features)
        return unit(np.asarray(raw.float().cpu().numpy(), np.float32))

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
        if missing:
            raise UserError(f"semantic search by {self.name} needs {missing[0]}: pip install 'vlagent[dense,train]'")
        from transformers import AutoImageProcessor, AutoModel

        try:
            model = AutoModel.from_pretrained(self.name).eval().to(self._device)
            return model, AutoImageProcessor.from_pretrained(self.name)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:160]
            raise UserError(
                f"model {self.name}: cannot be loaded ({reason}); give a folder with a CLIP model"
            ) from None


class SemanticOptions(Record):
    """How pictures become vectors."""

    model: str = "google/siglip2-base-patch16-256"
    kind: Kind = "ivf-sq8"
    titles: Path | None = None
    skip: tuple[str, ...] = ()
    batch: int = 16
    commit_every: int = 256


def index_semantic(
    sources: Sequence[Path],
    search: Path,
    options: SemanticOptions | None = None,
    *,
    rebuild: bool = False,
    progress: Progress | None = None,
    embedder: PictureEmbedder | None = None,
) -> IndexReport:
    """Bring `search`/semantic up to date with the pictures below `sources`; incremental like `index_images`.

    Raises UserError if there is nothing to index, or the model or the folder cannot be used.
    """
    options, started, folder = options or SemanticOptions(), time.monotonic(), search / "semantic"
    found = walk(sources, is_picture, options.skip)
    if not found.files:
        raise UserError(f"{', '.join(shown(source) for source in sources)}: no picture to index")
    model = embedder or ClipEmbedder(options.model)
    marker = Marker(kind="semantic", version=VERSION, options={"model": options.model, "dim": model.dim})
    with writing(folder, marker, rebuild=rebuild) as ledger:
        run = _Run(folder, options, ledger, model, Captions(options.titles))
        report = run.refresh(found, sources, progress or (lambda *_: None))
        store = DenseReader(folder, model.dim)
        refresh_vectors(folder, store.vectors, store.dead, options.kind)
    return report.model_copy(update={"seconds": time.monotonic() - started})


@dataclass
class _Run:
    folder: Path
    options: SemanticOptions
    ledger: Ledger
    model: PictureEmbedder
    captions: Captions
    problems: dict[str, str] = field(default_factory=dict)

    def refresh(self, found: Walk, sources: Sequence[Path], progress: Progress) -> IndexReport:
        known = self.ledger.entries()
        todo = plan(known, found.files, sources)
        writer = DenseWriter(self.ledger, self.folder, self.model.dim)
        jobs = sorted([*todo.new, *todo.changed])
        try:
            with self.ledger.transaction():
                for file in (*todo.gone, *todo.changed):
                    writer.delete(file)
                self.ledger.write(dict.fromkeys((*todo.gone, *todo.changed)) | todo.touched)
            for start in range(0, len(jobs), self.options.commit_every):
                progress(start, len(jobs), shown(jobs[start]))
                self._add(writer, jobs[start : start + self.options.commit_every], found)
        finally:
            writer.close()
        progress(len(jobs), len(jobs), "")
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

    def _add(self, writer: DenseWriter, files: Sequence[str], found: Walk) -> None:
        seen = list(self._readable(files))
        for start in range(0, len(seen), self.options.batch):
            batch = seen[start : start + self.options.batch]
            vectors = self.model.pictures([ref for _, ref in batch])
            for (file, ref), vector in zip(batch, vectors, strict=True):
                writer.add(file, [0], [self._payload(file, ref)], vector[None])
        with self.ledger.transaction():
            writer.commit()
            self.ledger.write({file: self._entry(file, found) for file, _ in seen})

    def _readable(self, files: Sequence[str]) -> Iterator[tuple[str, ImageRef]]:
        for file in files:
            try:
                file.encode()
                yield file, images.probe(file)
            except UnicodeEncodeError:
                self.problems[file] = "its name is not UTF-8; rename it"
            except (UserError, ServiceError) as error:
                self.problems[file] = str(error).split(file, 1)[-1].strip(": ")

    def _payload(self, file: str, ref: ImageRef) -> dict[str, Any]:
        caption = self.captions.of(file)
        shape = {"file": address(file, self.folder), "width": ref.width, "height": ref.height}
        return shape | {"title": caption.title, "text": caption.text, "url": caption.url}

    def _entry(self, file: str, found: Walk) -> Entry:
        state = found.files[file]
        return Entry(state.st_size, state.st_mtime_ns, digest(file), parts=1, done=True)


class SemanticIndex:
    """An `ImageSearch` over the folder that `vlagent index semantic` made: what looks alike, best first."""

    def __init__(self, folder: Path, embedder: PictureEmbedder | None = None, *, at_least: float = 0.0) -> None:
        """Hits whose cosine is below `at_least` are left out."""
        marker = check_marker(folder, "semantic", VERSION)
        state = read_state(folder)
        if state is None:
            raise UserError(f"{shown(folder)}: the index was never finished; run the same vlagent index again")
        self.folder, self._at_least, self._probes = folder, at_least, probes_for(state.lists)
        try:
            self._store = DenseReader(folder, int(marker.options["dim"]))
        except (sqlite3.Error, OSError, ValueError) as error:
            raise UserError(f"{shown(folder)}: damaged ({error}); rebuild it with --rebuild") from None
        self._nearest = Nearest(open_vectors(folder / state.file), state.kind, self._store.dead, self._store.vectors)
        self._model = embedder or ClipEmbedder(str(marker.options["model"]))

    def __len__(self) -> int:
        """Pictures in the index."""
        return self._store.rows - len(self._store.dead)

    async def search(self, query: ImageQuery) -> list[Hit]:
        """The most alike. Raises ServiceError if the query's pixels or the index cannot be read."""
        return await asyncio.to_thread(self.find, query)

    def find(self, query: ImageQuery) -> list[Hit]:
        """`search` without a thread of its own."""
        if not len(self) or query.top_k <= 0:
            return []
        vector = self._model.pictures([query.image])
        count = min(query.top_k, self._store.rows)
        scores, numbers = self._nearest.search(vector, count, probes=self._probes, rerank=8)
        payloads = self._store.payloads([int(number) for number in numbers[0] if number >= 0])
        ranked = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        return [self._hit(payloads[row], score) for row, score in ranked if row in payloads and score >= self._at_least]

    def _hit(self, payload: dict[str, Any], score: float) -> Hit:
        file = located(payload["file"], self.folder)
        there = Path(file).exists()
        thumbnail = ImageRef(path=file, width=payload["width"], height=payload["height"]) if there else None
        source = Source(title=payload["title"], file=file, url=payload["url"])
        return Hit(source=source, text=payload["text"], score=round(score, 4), thumbnail=thumbnail)


class InTurn:
    """An `ImageSearch` that asks several: the hits of the first come first, later ones fill up."""

    def __init__(self, parts: Sequence[ImageSearch]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        """Pictures in the largest of them."""
        return max(len(part) for part in self._parts if isinstance(part, Sized))

    async def search(self, query: ImageQuery) -> list[Hit]:
        """Each file once. Raises ServiceError if any of them fails."""
        hits: dict[tuple[str | None, str], Hit] = {}
        for part in self._parts:
            if len(hits) < query.top_k:
                for hit in await part.search(query):
                    hits.setdefault((hit.source.file, hit.source.title), hit)
        return list(hits.values())[: query.top_k]


def _size(ref: ImageRef) -> tuple[int, int]:
    scale = min(1.0, LONGEST / max(ref.width, ref.height))
    return max(1, round(ref.width * scale)), max(1, round(ref.height * scale))
