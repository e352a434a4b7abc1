"""Small sharp pictures with one small sign each, a benchmark of them, and its page in headless Chromium."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.browser import browser  # noqa: F401 - a fixture
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.chat.scripted import Scripted
from vlagent.curate.bench import book
from vlagent.curate.bench.collect import Given, collect_now
from vlagent.curate.bench.folder import Bench, open_bench
from vlagent.curate.bench.play import Player
from vlagent.curate.bench.records import Item
from vlagent.curate.bench.sieve import sieve
from vlagent.files import write_atomic
from vlagent.search.base import SearchServices
from vlagent.tools.registry import make_tools

SIGN = (400, 300, 480, 330)
"""Where every scene has its sign, in pixels."""
RULES = """\
name = "harbours"
domains = ["Ports", "Others"]
reviews = 2
tries = 2
k = 8
[filter]
long_side = 800
short_side = 600
"""


def scene(path: Path, seed: int, size: tuple[int, int] = (800, 600), **saved: Any) -> Path:
    """Coloured blocks of this seed's own, and a small sign."""
    draw_from = np.random.default_rng(seed)
    coarse = draw_from.integers(40, 216, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(size, Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(image)
    pen.rectangle(SIGN, fill="white", outline="black")
    pen.text((SIGN[0] + 6, SIGN[1] + 8), f"PIER {seed}", fill="black")
    image.save(path, **saved)
    return path


def make_bench(folder: Path, count: int = 3, rules: str = RULES) -> Bench:
    """Collected and filtered."""
    source = folder / "source"
    source.mkdir(parents=True)
    for seed in range(count):
        scene(source / f"scene{seed}.png", seed)
    write_atomic(folder / "bench" / "bench.toml", rules)
    bench = Bench(folder / "bench")
    collect_now(bench, [str(source)], Given(licence="CC0 1.0", date="2025-06-01"), lambda *_: None)
    sieve(bench)
    return open_bench(bench.folder)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A benchmark of three pictures that nobody changes."""
    return make_bench(tmp_path_factory.mktemp("made"))


@pytest.fixture
def bench(made: Bench, tmp_path: Path) -> Bench:
    """A copy of it."""
    return open_bench(Path(shutil.copytree(made.folder, tmp_path / "bench")))


@pytest.fixture
def address(bench: Bench) -> Iterator[str]:
    """The page of the benchmark, served to this machine."""
    uvicorn = pytest.importorskip("uvicorn", reason="the extra [serve] is not installed")
    from vlagent.curate.bench.server import make_app

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(make_app(bench, port), log_level="warning"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join(timeout=10)


FINISHED = {
    "state": "done",
    "box": SIGN,
    "question": "Who runs the pier with the small white sign?",
    "answers": ("Harbour Trust",),
    "domain": "Ports",
    "tools": ("image_crop", "text_search"),
    "evidence": ("evidence.txt",),
}


def write(bench: Bench, author: str = "ann", picture: int = 0, **fields: Any) -> Item:
    """A finished question, unless `fields` say otherwise."""
    item = book.create(bench, author, list(bench.usable())[picture])
    saved = book.save(bench, author, item.id, 1, {**FINISHED, **fields})
    assert not saved.problems, saved.problems
    return saved.item


def agree(bench: Bench, item: Item, *reviewers: str) -> None:
    """Reviews of people who find the question good."""
    for reviewer in reviewers:
        book.answer_blind(bench, reviewer, item.id, item.answers[0])
        book.review(bench, reviewer, item.id, "agree")


def player(script: Any, name: str = "scripted", **config: Any) -> Player:
    """A model that plays a script, without tools, or with the crop."""
    given = {"workflow": "direct", "tools": ("image_crop",), **config}
    settings = AgentConfig.model_validate(given)
    tools = make_tools(settings.tools if settings.workflow == "agent" else ())
    return Player(Agent(model=Scripted(script, name), config=settings, tools=tools, search=SearchServices()))
