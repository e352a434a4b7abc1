"""How fast the page of a large run opens and filters in headless Chromium, driven by mouse and keyboard.

    python -m benchmarks.report [--items 25000] [--keep FOLDER] [--json]

`open_s` is the time from the request for the page until its list is drawn and its first trajectory shown; the filters
are timed by the page's own clock, from the key or the click until the list has been painted anew (worst of several).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vlagent import images
from vlagent.files import append_jsonl, write_atomic
from vlagent.report.cards import read_run
from vlagent.report.page import render_page, write_report
from vlagent.types import (
    Call,
    EvalRow,
    ImageRef,
    Observation,
    Outcome,
    Record,
    Sample,
    Source,
    StopReason,
    Timings,
    Trajectory,
    Turn,
    Usage,
)

CHROMIUM = "/usr/bin/chromium"
PLACES = ("harbour", "bridge", "tower", "market", "museum", "station", "garden", "library")
PICTURES = 200
"""Different pictures; each is shown by many items, as in a benchmark of several questions a picture."""
WATCH = """addEventListener("input", (event) => requestAnimationFrame(() => setTimeout(() => {
  (window.took ||= []).push(performance.now() - event.timeStamp);
})), true);"""
"""Milliseconds from each input to the end of the frame that shows what came of it."""


def make_run(folder: Path, items: int) -> Path:
    """A run folder of some evaluation with three turns an episode."""
    rng = np.random.default_rng(0)
    refs = []
    for number in range(PICTURES):
        path = folder / "data" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        small = Image.fromarray(rng.integers(0, 255, (12, 16, 3), dtype=np.uint8))
        small.resize((1024, 768), Image.Resampling.BICUBIC).save(path, quality=80)
        refs.append(images.probe(path, decode=False))
    run = folder / "run"
    for start in range(0, items, 500):
        numbers = range(start, min(items, start + 500))
        made = [_episode(number, refs[number % PICTURES]) for number in numbers]
        for index, name in enumerate(("samples.jsonl", "trajectories.jsonl", "rows.jsonl")):
            append_jsonl(run / name, *(each[index] for each in made))
    return run


def _episode(number: int, picture: ImageRef) -> tuple[Record, Record, Record]:
    place, year = PLACES[number % len(PLACES)], 1500 + number % 500
    said = f"The {place} of town {number} was founded in {year}. " * 4
    sample = Sample(
        id=f"q{number:05}",
        source=f"suite-{number % 4}",
        question=f"When was the {place} of town {number} founded, which stands behind the sign with the red letters?",
        images=(picture,),
        answers=(str(year),),
    )
    crop = images.crop(picture, (100, 100, 400, 300))
    right = number % 3 != 0
    answer = str(year if right else year + 1)
    turns = (
        Turn(
            text="<think>Look closer.</think>",
            think="The sign is too small to be read, so I look closer at it.",
            call=Call(name="image_crop", arguments={"bbox": [100, 130, 390, 390], "image_index": 0}),
            format_ok=True,
            observation=Observation(text="The region of image 0.", images=(crop,)),
        ),
        Turn(
            text="<think>Find it.</think>",
            think=f"The sign names the {place}. I search for its year.",
            call=Call(name="text_search", arguments={"query": f"{place} town {number} founded"}),
            format_ok=True,
            observation=Observation(text=said, sources=(Source(title=place, url="https://example.org/a"),)),
        ),
        Turn(text=f"<answer>{answer}</answer>", think="Now it is clear.", answer=answer, format_ok=True),
    )
    limit = number % 50 == 0
    trajectory = Trajectory(
        sample_id=sample.id,
        turns=turns[:2] if limit else turns,
        answer=None if limit else answer,
        stop=StopReason.TURN_LIMIT if limit else StopReason.ANSWERED,
        images=(picture, crop),
        prompt=sample.question,
        usage=Usage(prompt_tokens=2000, completion_tokens=200, calls=3),
        timings=Timings(total_s=4.0),
    )
    row = EvalRow(
        suite=sample.source,
        sample_id=sample.id,
        outcome=Outcome.RIGHT if right and not limit else Outcome.WRONG,
        answer=trajectory.answer,
        answers=sample.answers,
        why="rule number" if right else "no rule accepts it",
        stop=trajectory.stop,
        slices={"difficulty": "hard" if number % 5 else "easy"},
    )
    return sample, trajectory, row


LIMIT_S = 60.0
"""What a page that has not opened by then is taken to need."""


def drive(page_path: Path, items: int, *, at_once: bool = False) -> dict[str, float]:
    """Open the page and use it as a person would; seconds."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(1000 * LIMIT_S)
        page.add_init_script(WATCH)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
        started = time.perf_counter()
        try:
            page.goto(page_path.as_uri())
        except PlaywrightTimeout:
            browser.close()
            return {"open_s": LIMIT_S, "filter_s": LIMIT_S}
        page.wait_for_selector("#list a")
        page.locator("article:not([hidden]) h2").first.wait_for()
        times = {"open_s": time.perf_counter() - started}
        times["filter_outcome_s"] = _timed(page, lambda: page.locator("#outcomes .wrong").click())
        if at_once:
            browser.close()
            return {**times, "filter_s": times["filter_outcome_s"]}
        times["filter_text_s"] = max(_type(page, text) for text in ("harbour", "town 77", "founded in 1999"))
        page.keyboard.press("Escape")
        times["filter_pick_s"] = _timed(page, lambda: page.select_option("select[name=stop]", "turn_limit"))
        page.keyboard.press("Escape")
        page.locator("#shown", has_text=f"{items:,} of").wait_for()
        times["filter_s"] = max(value for name, value in times.items() if name.startswith("filter_"))
        times["next_s"] = _next(page, items)
        browser.close()
    if problems:
        raise AssertionError(problems[0])
    return times


def _timed(page: Any, act: Callable[[], object]) -> float:
    """The slowest frame of an act, in seconds."""
    page.evaluate("window.took = []")
    act()
    for _ in range(200):
        took = page.evaluate("window.took")
        if took:
            return float(max(took)) / 1000
        page.wait_for_timeout(20)
    raise AssertionError("the page saw no input")


def _type(page: Any, text: str) -> float:
    """The slowest key of a word that is typed into the search field."""
    page.keyboard.press("/")
    return max(_timed(page, partial(page.keyboard.press, key)) for key in text)


def _next(page: Any, items: int) -> float:
    """Walking to an article of a file that has not been loaded."""
    worst = 0.0
    for number in (100, items // 2):
        started = time.perf_counter()
        page.evaluate(f"location.hash = '#t{number}'")
        page.locator(f"article#a{number}").wait_for()
        worst = max(worst, time.perf_counter() - started)
    return worst


def measure(items: int, folder: Path, *, at_once: bool = False) -> dict[str, float]:
    """The numbers of the docstring, and what the folder takes; `at_once` puts everything into one file."""
    run = make_run(folder, items)
    started = time.perf_counter()
    if at_once:
        page = folder / "page" / "report.html"
        write_atomic(page, render_page(read_run(run)))
    else:
        page = write_report(run)
    wrote_s = time.perf_counter() - started
    size = sum(path.stat().st_size for path in page.parent.rglob("*") if path.is_file())
    return {"items": items, "write_s": wrote_s, "folder_mb": size / 2**20, **drive(page, items, at_once=at_once)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=25_000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="leave the run and its page there")
    parser.add_argument("--at-once", action="store_true", help="one file: what it is to be held against")
    parser.add_argument("--json", action="store_true", help="one line")
    args = parser.parse_args()
    if args.keep:
        found = measure(args.items, args.keep, at_once=args.at_once)
    else:
        with tempfile.TemporaryDirectory(prefix="vlagent-report-") as folder:
            found = measure(args.items, Path(folder), at_once=args.at_once)
    if args.json:
        print(json.dumps({name: round(value, 3) for name, value in found.items()}))
        return
    for name, value in found.items():
        print(f"{name:18} {value:.3f}")


if __name__ == "__main__":
    main()
