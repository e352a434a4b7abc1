"""Reverse image search on photographs and rendered scenes: recall by change and by source, speed against a flat scan.

    python benchmarks/pictures.py [PICTURES] [TARGETS]

Half of the pictures are windows of scikit-image's photographs, 256 pixels wide and high, any two of which share at most
half of their area; the other half are scenes of the toy world. `TARGETS` of them, half of each source, are changed in
six ways and looked up: JPEG of quality 30, half the size, turned by 10 degrees, cropped to 70 % and 40 % of each side,
pasted into a page of text. A query is right if the first hit is the picture that it was made of. The flat scan matches
the same queries with every picture in turn (brute-force matcher, ratio test, RANSAC), descriptors kept in memory. Both
sides run on one thread. `on_paper` scales what was measured to a larger collection.
"""

from __future__ import annotations

import io
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageDraw

from benchmarks.search import FlatSift
from vlagent import images
from vlagent.search.base import ImageQuery
from vlagent.search.picture_build import PictureOptions, index_images
from vlagent.search.picture_features import extract
from vlagent.search.picture_index import CANDIDATES, PictureIndex
from vlagent.search.picture_postings import MULTIPLE
from vlagent.search.picture_words import words_for
from vlagent.toy.scene import draw_scene

PICTURES = 500
TARGETS = 120
SIDE = 256
STEP = 75
"""Two windows that differ by this much in both directions share (1 - 75 / 256) ** 2 < 1 / 2 of their area."""
FLATTEST = 6
"""Grey levels by which a window must vary; the black around the retina does not."""
FLAT_QUERIES = 6
PAPER = 100_000
_NAMES = """astronaut camera chelsea coffee rocket hubble_deep_field retina motorcycle_left immunohistochemistry
cell coins moon brick grass gravel clock"""
PHOTOGRAPHS = tuple(_NAMES.split())
_FILES = {"immunohistochemistry": "ihc", "clock": "clock_motion"}

Change = Callable[[Image.Image, random.Random], Image.Image]


def measure(pictures: int = PICTURES, targets: int = TARGETS, folder: Path | None = None) -> dict[str, Any]:
    """Recall by change and source, times of both sides, what the index costs, and the same for 100,000 pictures."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            return measure(pictures, targets, Path(made))
    source = folder / "pictures"
    source.mkdir(parents=True, exist_ok=True)
    files = write_pictures(source, pictures)
    started, cpu = time.monotonic(), time.process_time()
    index_images([source], folder, PictureOptions(threads=1), rebuild=True)
    build = {"wall_s": time.monotonic() - started, "cpu_s": time.process_time() - cpu}
    started = time.monotonic()
    index = PictureIndex(folder / "images")
    open_s = time.monotonic() - started
    queries = list(_queries(files, targets, folder))
    ours = _ask(lambda path: _first(index, path), queries)
    flat = FlatSift(files)
    scan = _ask(flat.best, queries[:: max(1, len(queries) // FLAT_QUERIES)])
    size = sum(f.stat().st_size for f in (folder / "images").rglob("*") if f.is_file())
    costs = {
        "build_cpu_s": build["cpu_s"] / len(files),
        "open_s": open_s / len(files),
        "disk": size / len(files),
        "mapped": sum(f.stat().st_size for f in (folder / "images" / "postings").rglob("*.npy")) / len(files),
        **_look_up_costs(index, queries[:: max(1, len(queries) // 40)]),
    }
    return {
        "pictures": {"photo": sum(f.stem.startswith("photo") for f in files), "all": len(files)},
        "queries": len(queries),
        "recall": _recall(ours, queries),
        "build": build,
        "open_s": open_s,
        "index_bytes_a_picture": size / len(files),
        "query_cpu_ms": _times(ours),
        "flat_cpu_ms": _times(scan),
        "flat_recall": statistics.fmean(right for _, right in scan),
        "ratio_to_flat": statistics.median(s for s, _ in ours) / statistics.median(s for s, _ in scan),
        "refresh_s": _refresh(source, folder),
        "on_paper": on_paper(costs),
    }


def write_pictures(folder: Path, count: int) -> list[Path]:
    """`photo_*.png` and `scene_*.png`, half each (fewer photographs where scikit-image has no more windows)."""
    windows = list(_windows())
    random.Random(0).shuffle(windows)
    files = []
    for number, (name, window) in enumerate(windows[: count // 2]):
        files.append(folder / f"photo_{number:04}_{name}.png")
        window.save(files[-1])
    for number in range(count - len(files)):
        files.append(folder / f"scene_{number:04}.png")
        draw_scene(random.Random(f"scene/{number}"), 2 + number % 2).image.save(files[-1])
    return sorted(files)


def _windows() -> Iterator[tuple[str, Image.Image]]:
    """Every window of a checkerboard whose fields are STEP pixels wide."""
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    for name in PHOTOGRAPHS:
        stem = _FILES.get(name, name)
        path = next(folder / f"{stem}{suffix}" for suffix in (".png", ".jpg") if (folder / f"{stem}{suffix}").exists())
        photo = Image.open(path).convert("RGB")
        for row, top in enumerate(range(0, photo.height - SIDE + 1, STEP)):
            for left in range(STEP * (row % 2), photo.width - SIDE + 1, 2 * STEP):
                window = photo.crop((left, top, left + SIDE, top + SIDE))
                if np.asarray(window.convert("L"), np.float32).std() > FLATTEST:
                    yield f"{name}_{left}_{top}", window


def jpeg(picture: Image.Image, _rng: random.Random) -> Image.Image:
    """Quality 30."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=30)
    return Image.open(buffer).convert("RGB")


def halved(picture: Image.Image, _rng: random.Random) -> Image.Image:
    """Half as wide and high."""
    return picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.BICUBIC)


def turned(picture: Image.Image, _rng: random.Random) -> Image.Image:
    """By 10 degrees, with black corners."""
    return picture.rotate(10, resample=Image.Resampling.BICUBIC)


def cropped(share: float) -> Change:
    """A window of `share` of each side, anywhere."""

    def crop(picture: Image.Image, rng: random.Random) -> Image.Image:
        width, height = round(share * picture.width), round(share * picture.height)
        left, top = rng.randint(0, picture.width - width), rng.randint(0, picture.height - height)
        return picture.crop((left, top, left + width, top + height))

    return crop


def pasted(picture: Image.Image, rng: random.Random) -> Image.Image:
    """On a page of text, a third to a half as wide as the page."""
    page = Image.new("RGB", (900, 1100), "white")
    draw = ImageDraw.Draw(page)
    for y in range(20, 1080, 24):
        words = " ".join(rng.choice(("the", "page", "of", "morning", "papers", "tells", "more")) for _ in range(22))
        draw.text((20, y), words, fill="black", font_size=15)
    width = rng.randint(300, 450)
    small = picture.resize((width, round(width * picture.height / picture.width)), Image.Resampling.BICUBIC)
    page.paste(small, (rng.randint(20, 880 - small.width), rng.randint(20, 1080 - small.height)))
    return page


CHANGES: dict[str, Change] = {
    "jpeg_30": jpeg,
    "half_size": halved,
    "turned_10": turned,
    "crop_70": cropped(0.7),
    "crop_40": cropped(0.4),
    "pasted": pasted,
}


def _queries(files: list[Path], targets: int, folder: Path) -> Iterator[tuple[str, str, str]]:
    """(path of the query, change, stem of the right picture), sources by turns."""
    rng = random.Random(7)
    (folder / "queries").mkdir(exist_ok=True)
    halves = [[file for file in files if file.stem.startswith(kind)] for kind in ("photo", "scene")]
    chosen = [file for half in halves for file in rng.sample(half, min(targets // 2, len(half)))]
    for file in chosen:
        picture = Image.open(file).convert("RGB")
        for change, make in CHANGES.items():
            path = folder / "queries" / f"{file.stem}-{change}.png"
            make(picture, random.Random(f"{file.stem}/{change}")).save(path)
            yield str(path), change, file.stem


def _first(index: PictureIndex, path: str) -> str:
    hits = index.find(ImageQuery(image=images.probe(path)))
    return Path(hits[0].source.file or "").stem if hits else ""


def _ask(search: Callable[[str], str], queries: list[tuple[str, str, str]]) -> list[tuple[float, bool]]:
    """(seconds of CPU, whether it was right) a query; wall time would measure what else the machine does."""
    cv2.setNumThreads(1)
    search(queries[0][0])
    asked = []
    for path, _, stem in queries:
        started = time.process_time()
        found = search(path)
        asked.append((time.process_time() - started, found == stem))
    return asked


def _recall(asked: list[tuple[float, bool]], queries: list[tuple[str, str, str]]) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, list[bool]]] = {change: {"photo": [], "scene": [], "all": []} for change in CHANGES}
    for (_, right), (_, change, stem) in zip(asked, queries, strict=True):
        table[change][stem.split("_")[0]].append(right)
        table[change]["all"].append(right)
    return {c: {s: statistics.fmean(rs) for s, rs in row.items() if rs} for c, row in table.items()}


def _times(asked: list[tuple[float, bool]]) -> dict[str, float]:
    times = [1000 * seconds for seconds, _ in asked]
    return {"p50": statistics.median(times), "p99": float(np.percentile(times, 99))}


def _look_up_costs(index: PictureIndex, queries: list[tuple[str, str, str]]) -> dict[str, float]:
    """Seconds of the inverted index a query and a keypoint that it is compared with; the rest does not grow."""
    words, postings = index._words, index._postings
    assert words is not None
    seconds, compared, keypoints = [], [], []
    for path, _, _ in queries:
        looks = extract(images.probe(path))
        started = time.process_time()
        postings.pairs(looks, words, CANDIDATES)
        seconds.append(time.process_time() - started)
        compared.append(postings.postings(looks, words))
        keypoints.append(len(looks.points))
    return {
        "lookup_s": statistics.median(seconds),
        "compared": statistics.fmean(compared),
        "s_a_comparison": sum(seconds) / max(sum(compared), 1),
        "query_keypoints": statistics.fmean(keypoints),
        "keypoints": sum(len(segment.owners) for segment in postings._segments) / len(index),
    }


def _refresh(source: Path, folder: Path) -> float:
    """Seconds of a run that adds one picture."""
    draw_scene(random.Random("one more"), 3).image.save(source / "scene_new.png")
    return index_images([source], folder, PictureOptions(threads=1)).seconds


def on_paper(costs: dict[str, float], pictures: int = PAPER) -> dict[str, float]:
    """What so many pictures would cost, scaled from what was measured: costs a picture, comparisons a query."""
    compared = MULTIPLE * costs["query_keypoints"] * costs["keypoints"] * pictures / words_for(pictures)
    return {
        "pictures": pictures,
        "build_cpu_hours": pictures * costs["build_cpu_s"] / 3600,
        "open_s_at_most": pictures * costs["open_s"],
        "disk_gb": pictures * costs["disk"] / 1e9,
        "mapped_gb": pictures * costs["mapped"] / 1e9,
        "words": words_for(pictures),
        "compared_a_query": compared,
        "lookup_ms": 1000 * max(costs["lookup_s"], compared * costs["s_a_comparison"]),
    }


def main() -> None:
    numbers = [int(word) for word in sys.argv[1:3]]
    pictures, targets = [*numbers, *(PICTURES, TARGETS)[len(numbers) :]]
    print(json.dumps(measure(pictures, targets), indent=1))


if __name__ == "__main__":
    main()
