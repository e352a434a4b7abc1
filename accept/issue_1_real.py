"""Issue 1: real documents, photographs, and a picture far bigger than memory should hold."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import skimage
import tifffile
from PIL import Image

from accept.harness import ROOT, WORK, Context, Figure, dump
from benchmarks import crop as crop_benchmark
from tests.fakes.brains import colour_code_brain, plant_code
from tests.fakes.openai_server import KEY, FakeOpenAI

SEED = 5
PHOTOS = ("astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "brick.png")
SKEW = 0.02
"""How far a sabotaged box is off."""


@dataclass(frozen=True)
class Quest:
    """One question: a photograph with a word planted in it, and the only document that holds the word."""

    photo: Path
    title: str
    word: str
    document: str


def real_content(ctx: Context) -> list[Figure]:
    """Index the machine's documentation and scikit-image's photographs, then ask; sabotaged, every box is off."""
    documents = _documents(ctx.folder)
    search = ctx.folder / "search"
    photos = Path(skimage.__file__).parent / "data"
    for kind, source in (("text", documents), ("images", photos)):
        done = _vlagent("index", kind, source, search)
        if done.returncode != 0:
            raise RuntimeError(f"vlagent index {kind} {source}: {done.stderr[-500:]}")
    quests = list(_quests(ctx, documents, photos))
    right = [_ask(q, search, SKEW if ctx.broken else 0.0) for q in quests]
    off = [_ask(q, search, SKEW) for q in quests]
    down = [_down(quests[0].photo, search)]
    bad = [_bad_image(ctx.folder, name) for name in ("missing.png", "truncated.png", "text.png", "")]
    dump(ctx.folder, {"quests": [vars(q) for q in quests], "right": right, "off": off, "down": down, "bad": bad})
    note = f"{documents}; pages, titles and files checked"
    return [
        Figure("ask_right_share", sum(right) / len(right), len(right), SEED, note),
        Figure("ask_box_off_by_2_percent_right", sum(off), len(off), SEED),
        Figure("ask_endpoint_down_exit_code", down[0], 1),
        Figure("ask_bad_image_exit_code", max(bad, key=lambda code: abs(code - 2)), len(bad), note="the worst of four"),
    ]


def _documents(folder: Path) -> Path:
    """The machine's documentation, or what the installed packages ship where the machine has none."""
    if sum(1 for _ in Path("/usr/share/doc").glob("*/*")) > 200:
        return Path("/usr/share/doc")
    shipped = folder / "documents"
    for path in Path(skimage.__file__).parents[1].glob("*.dist-info/**/*"):
        if path.is_file() and path.suffix in ("", ".md", ".txt", ".rst"):
            shipped.mkdir(exist_ok=True)
            shutil.copyfile(path, shipped / f"{path.parent.name}-{path.stem}.txt")
    return shipped


def _quests(ctx: Context, documents: Path, photos: Path) -> Iterator[Quest]:
    rng = Random(SEED)
    words = _rare_words(documents)
    for number, word in enumerate(rng.sample(sorted(words), ctx.few(24, 6))):
        name = PHOTOS[number % len(PHOTOS)]
        path = ctx.folder / f"{number}-{name}"
        with Image.open(photos / name) as image:
            cell = max(8, image.width // 40)
            plant_code(image, word, at=(cell, cell), cell=cell).save(path)
        yield Quest(path, Path(name).stem.replace("_", " "), word, words[word])


def _rare_words(documents: Path) -> dict[str, str]:
    """Words of six to ten letters that stand in exactly one document, a plain text of moderate size."""
    seen: Counter[str] = Counter()
    where: dict[str, str] = {}
    for path in sorted(p for p in documents.glob("**/*") if p.is_file() and not p.is_symlink()):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace").lower()
        plain = path.suffix in (".txt", ".md", "") and 500 < len(data) < 100_000
        for word in set(re.findall(r"(?<![\w-])[a-z]{6,10}(?![\w-])", text)):
            seen[word] += 1
            if plain:
                where[word] = str(path)
    return {word: path for word, path in where.items() if seen[word] == 1}


def _ask(quest: Quest, search: Path, skew: float) -> bool:
    """Whether the answer has the title and the passage, and names both files."""
    question = "Which photograph is this, and what does the text say about the coded word?"
    with FakeOpenAI(colour_code_brain(skew)) as server:
        words = ("ask", quest.photo, question, "--search", search, "--base-url", server.base_url, "--json")
        done = _vlagent(*words, cwd=quest.photo.parent)
    if done.returncode != 0:
        return False
    value: dict[str, Any] = json.loads(done.stdout)
    files = {Path(str(source["file"])).resolve() for source in value["sources"]}
    found = Path(quest.document).resolve() in files and any(
        file.stem.replace("_", " ") == quest.title for file in files
    )
    return found and f"The photograph is {quest.title}" in value["answer"] and quest.word in value["answer"].lower()


def _down(photo: Path, search: Path) -> int:
    words = ("ask", photo, "What is this?", "--search", search, "--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    done = _vlagent(*words, cwd=photo.parent)
    return done.returncode if len(done.stderr.strip().splitlines()[-1:]) == 1 else -1


def _bad_image(folder: Path, name: str) -> int:
    """Exit code of a question about a picture that is missing, cut off, no picture, or a folder."""
    path = folder / name
    if name == "truncated.png":
        path.write_bytes((Path(skimage.__file__).parent / "data" / "astronaut.png").read_bytes()[:20_000])
    if name == "text.png":
        path.write_text("no picture")
    done = _vlagent("ask", path, "What is this?", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", cwd=folder)
    return done.returncode if len(done.stderr.strip().splitlines()) == 1 else -1


def _vlagent(*words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vlagent", *map(str, words)]
    environment = {**os.environ, "OPENAI_API_KEY": KEY}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def tiff(ctx: Context) -> list[Figure]:
    """A crop of 2,000 x 2,000 pixels of a 40,000 x 40,000 TIFF; sabotaged, the TIFF is one single tile."""
    folder = WORK / ("crop-broken" if ctx.broken else "crop")
    if ctx.broken:
        _write_one_tile(folder / "huge.tif")
    measured = crop_benchmark.measure(folder)
    dump(ctx.folder, measured)
    right = "right pixels" if measured["right_pixels"] else "WRONG PIXELS"
    ratio = measured["ratio"] if measured["right_pixels"] else float("inf")
    return [
        Figure("tiff_peak_mb", measured["tiff_peak_mb"], crop_benchmark.REPEATS, note=right),
        Figure("tiff_time_ratio", ratio, crop_benchmark.REPEATS, note="over Pillow on the 8K JPEG"),
    ]


def _write_one_tile(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = (16_000, 26_000, 3)
    tifffile.imwrite(path, np.zeros(shape, np.uint8), tile=shape[:2], compression="zlib", photometric="rgb")
