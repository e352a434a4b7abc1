"""Build and query rates of the embedded search, against named yardsticks in the same run.

    python benchmarks/search.py [PASSAGES] [PICTURES]

Text: tantivy behind `index_text` and `TextIndex` against an in-memory BM25 in plain Python and a scan of all passages.
Pictures: `index_images` and `PictureIndex` against flat SIFT, which matches the query with every picture in turn
(brute-force matcher, ratio test, RANSAC). Both sides get the same queries and must find the same things; `recall` says
how often each did. Times are seconds of wall time; `cpu_s` is what this process used. Pictures are searched on one
thread and indexed on all cores.
"""

from __future__ import annotations

import json
import math
import random
import re
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

from vlagent import images
from vlagent.search.base import ImageQuery, TextQuery
from vlagent.search.picture_build import index_images
from vlagent.search.picture_features import extract
from vlagent.search.picture_index import PictureIndex
from vlagent.search.text_build import index_text
from vlagent.search.text_index import TextIndex

PASSAGES = 50_000
PICTURES = 300
WORDS = 80
"""A passage."""
QUERIES = 100
PICTURE_QUERIES = 20
FLAT_QUERIES = 3
"""Flat SIFT takes seconds each."""


def measure(passages: int = PASSAGES, pictures: int = PICTURES) -> dict[str, Any]:
    """Numbers of the text and of the picture index, and those of their yardsticks."""
    with tempfile.TemporaryDirectory() as folder:
        return {"text": _text(Path(folder), passages), "pictures": _pictures(Path(folder), pictures)}


def _text(folder: Path, count: int) -> dict[str, Any]:
    rows = _corpus(count)
    corpus = folder / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"id": i, "contents": row}) for i, row in enumerate(rows)))
    started, cpu = time.monotonic(), time.process_time()
    index_text([corpus], folder)
    build_s, build_cpu_s = time.monotonic() - started, time.process_time() - cpu
    index = TextIndex(folder / "text")
    plain = PlainBm25(rows)
    rng = random.Random(1)
    asked = [rng.randrange(count) for _ in range(QUERIES)]
    queries = [" ".join(rng.sample(rows[i].split(), 5)) for i in asked]
    titles = [rows[i].split("\n")[0] for i in asked]

    def ours(query: str) -> str:
        hits = index.find(TextQuery(text=query))
        return hits[0].source.title if hits else ""

    return {
        "passages": count,
        "build_s": build_s,
        "build_cpu_s": build_cpu_s,
        "passages_per_s": count / build_s,
        "index_mb": sum(f.stat().st_size for f in (folder / "text").rglob("*") if f.is_file()) / 1e6,
        "vlagent": _timed(ours, queries, titles),
        "plain Python BM25": {"build_s": plain.build_s, **_timed(plain.best, queries[:20], titles[:20])},
        "plain Python scan": _timed(lambda query: _scan(rows, query), queries[:5], titles[:5]),
    }


def _corpus(count: int) -> list[str]:
    """Words with the frequencies of a language: rank r is about as frequent as 1 / r."""
    rng = np.random.default_rng(0)
    letters = np.array(list("aeioubcdfghklmnprstvz"))
    vocabulary = ["".join(rng.choice(letters, rng.integers(3, 10))) for _ in range(30_000)]
    weights = 1.0 / np.arange(1, len(vocabulary) + 1)
    drawn = rng.choice(len(vocabulary), (count, WORDS), p=weights / weights.sum())
    return [f"Title {i}\n" + " ".join(vocabulary[w] for w in row) for i, row in enumerate(drawn)]


class PlainBm25:
    """The textbook formula over a dict of postings."""

    def __init__(self, rows: Sequence[str]) -> None:
        started = time.monotonic()
        self.rows = rows
        self.postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self.lengths = []
        for number, row in enumerate(rows):
            counts = Counter(re.findall(r"\w+", row.lower()))
            self.lengths.append(counts.total())
            for word, times in counts.items():
                self.postings[word].append((number, times))
        self.usual = statistics.fmean(self.lengths)
        self.build_s = time.monotonic() - started

    def best(self, query: str) -> str:
        """Title of the best row."""
        scores: dict[int, float] = defaultdict(float)
        for word in set(re.findall(r"\w+", query.lower())):
            found = self.postings.get(word, [])
            rarity = math.log(1 + (len(self.rows) - len(found) + 0.5) / (len(found) + 0.5))
            for number, times in found:
                scores[number] += rarity * times * 2.2 / (times + 0.3 + 0.9 * self.lengths[number] / self.usual)
        return self.rows[max(scores, key=lambda n: scores[n])].split("\n")[0] if scores else ""


def _scan(rows: Sequence[str], query: str) -> str:
    words = set(query.lower().split())
    return max(rows, key=lambda row: len(words & set(row.lower().split()))).split("\n")[0]


def _pictures(folder: Path, count: int) -> dict[str, Any]:
    source = folder / "pictures"
    source.mkdir()
    for seed in range(count):
        _draw(seed).save(source / f"p{seed:05}.png")
    started, cpu = time.monotonic(), time.process_time()
    index_images([source], folder)
    build_s, build_cpu_s = time.monotonic() - started, time.process_time() - cpu
    started = time.monotonic()
    index = PictureIndex(folder / "images")
    open_s = time.monotonic() - started
    flat = FlatSift(sorted(source.iterdir()))
    queries, titles = _crops(folder, count)

    def ours(query: str) -> str:
        hits = index.find(ImageQuery(image=images.probe(query)))
        return hits[0].source.title if hits else ""

    few = max(1, min(FLAT_QUERIES, len(queries)))
    return {
        "pictures": count,
        "build_s": build_s,
        "build_cpu_s": build_cpu_s,
        "pictures_per_cpu_s": count / build_cpu_s,
        "open_s": open_s,
        "vlagent": _timed(ours, queries, titles),
        "flat SIFT": _timed(flat.best, queries[:few], titles[:few]),
    }


def _draw(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (7, 9, 3), dtype=np.uint8)
    picture = Image.fromarray(coarse).resize((640, 640), Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(picture)
    for _ in range(90):
        x, y = int(rng.integers(0, 640)), int(rng.integers(0, 640))
        points = [(x + int(dx), y + int(dy)) for dx, dy in rng.integers(-70, 70, (int(rng.integers(3, 6)), 2))]
        draw.polygon(points, fill=tuple(int(c) for c in rng.integers(0, 255, 3)))
    return picture


def _crops(folder: Path, count: int) -> tuple[list[str], list[str]]:
    """Crops of 70 %, brought back to 640 x 640 pixels, as JPEG."""
    queries, titles = [], []
    for i in range(PICTURE_QUERIES):
        seed = i * count // PICTURE_QUERIES
        path = folder / f"query{i}.jpg"
        _draw(seed).crop((100, 60, 548, 508)).resize((640, 640)).save(path, quality=80)
        queries.append(str(path))
        titles.append(f"p{seed:05}")
    return queries, titles


class FlatSift:
    """Match with every picture in turn; their keypoints are kept in memory."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.all = [(file.stem, extract(images.probe(file))) for file in files]

    def best(self, query: str) -> str:
        """Title of the picture with the most corners in place."""
        looks = extract(images.probe(query))
        mine = looks.descriptors.astype(np.float32)
        counts = {title: self._corners(mine, looks.points, other) for title, other in self.all}
        return max(counts, key=lambda title: counts[title])

    def _corners(self, mine: Any, points: Any, other: Any) -> int:
        pairs = cv2.BFMatcher(cv2.NORM_L2).knnMatch(mine, other.descriptors.astype(np.float32), k=2)
        good = [pair[0] for pair in pairs if len(pair) == 2 and pair[0].distance < 0.8 * pair[1].distance]
        if len(good) < 4:
            return 0
        here = np.array([points[match.queryIdx] for match in good])
        there = np.array([other.points[match.trainIdx] for match in good])
        _, inside = cv2.estimateAffinePartial2D(here, there, method=cv2.RANSAC, ransacReprojThreshold=6.0)
        return int(inside.sum()) if inside is not None else 0


def _timed(search: Callable[[str], str], queries: Sequence[str], titles: Sequence[str]) -> dict[str, float]:
    search(queries[-1])
    walls, cpu, right = [], time.process_time(), 0
    for query, title in zip(queries, titles, strict=True):
        started = time.monotonic()
        right += search(query) == title
        walls.append(time.monotonic() - started)
    return {
        "median_ms": 1000 * statistics.median(walls),
        "cpu_ms": 1000 * (time.process_time() - cpu) / len(queries),
        "recall": right / len(queries),
    }


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:3]]
    print(json.dumps(measure(*numbers), indent=1))


if __name__ == "__main__":
    main()
