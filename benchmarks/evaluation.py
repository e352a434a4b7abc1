"""How fast an evaluation goes: 64 episodes at one time against an endpoint that takes half a second a turn.

    python -m benchmarks.evaluation [--items 3200] [--profile] [--serial] [--json]

Three turns an episode (a crop, a search, the answer), each item with a picture of its own, the whole of it: pictures
encoded, requests over HTTP, trajectories and rows written, answers scored, the summary computed. The endpoint is
another process. `best` is what the endpoint alone would allow: 64 episodes in 3 x 0.5 s are 42.7 a second.
`share` is the rate of the whole run over that, start and summary included, which weigh the less the longer the run:
64 episodes that begin at once keep in step for a few waves. `share_steady` is the rate between the end of the first
wave and the last end. `cpu_ms` is the CPU time of this process for one episode (all threads), `lag` how late the event
loop woke up from a sleep of 5 ms. `--serial` plays one episode after the other: what all is to be held against. `1 Mpx`
is 1024 x 1024, which the model sees as it is; `1 Mpx odd` has to be scaled.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vlagent import images
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import Watcher, evaluate
from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.search.base import SearchServices, TextQuery
from vlagent.tools.registry import make_tools
from vlagent.types import EvalRow, Hit, Sample, Source

CONCURRENCY = 64
TURNS = 3
TURN_S = 0.5
SIZES = {"1 Mpx": (1024, 1024), "1 Mpx odd": (1000, 1050), "4K": (3840, 2160)}
BEST = CONCURRENCY / (TURNS * TURN_S)


class OnePassage:
    """A text search that finds the same at once."""

    async def search(self, query: TextQuery) -> list[Hit]:  # noqa: ARG002
        return [Hit(source=Source(title="Harbour", file="harbour.txt"), text="The harbour was founded in 1931. " * 12)]


def make_items(folder: Path, size: tuple[int, int], count: int) -> list[Sample]:
    """Each with a picture of its own: a photograph-like texture, so that the files have a usual size."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 255, (size[1] // 24, size[0] // 24, 3), dtype=np.uint8))
    base = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), np.int16)
    items = []
    for number in range(count):
        grain = rng.integers(-9, 9, (size[1] // 2, size[0] // 2, 1)).repeat(2, 0).repeat(2, 1)
        path = folder / f"{number}.jpg"
        drawn = np.clip(np.roll(base, 31 * number, 1)[: grain.shape[0], : grain.shape[1]] + grain, 0, 255)
        Image.fromarray(drawn.astype(np.uint8)).resize(size).save(path, quality=88)
        items.append(
            Sample(
                id=f"i{number}",
                source="benchmark",
                question="When was the harbour founded?",
                images=(images.probe(path, decode=False),),
                answers=("1931",),
            )
        )
    return items


@dataclass
class Lag:
    """How late the event loop wakes up."""

    step_s: float = 0.005
    found_s: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        while True:
            due = time.perf_counter() + self.step_s
            await asyncio.sleep(self.step_s)
            self.found_s.append(time.perf_counter() - due)


async def _run(port: int, items: list[Sample], run: Path, lag: Lag, at_once: int) -> list[float]:
    """Play all; the times at which rows came (seconds)."""
    model = HttpChat("fake", HttpOptions(base_url=f"http://127.0.0.1:{port}/v1"))
    search = SearchServices(text=OnePassage())
    agent_config = AgentConfig(tools=("image_crop", "text_search"))
    tools = make_tools(agent_config.tools, search=search)
    agent = Agent(model, agent_config, tools, search, folder=run / "images")
    config = EvalConfig(target="benchmark", model="fake", agent=agent_config, concurrency=at_once)
    ends: list[float] = []

    def on_row(row: EvalRow) -> None:
        assert row.outcome == "right", row.why
        ends.append(time.perf_counter())

    watching = asyncio.create_task(lag.watch())
    await evaluate(config, agent, items, run, watcher=Watcher(on_row=on_row))
    watching.cancel()
    await model.aclose()
    return ends


def measure(
    name: str, count: int, profile: cProfile.Profile | None = None, *, at_once: int = CONCURRENCY
) -> dict[str, Any]:
    """The numbers of the docstring above for one size of picture."""
    command = [sys.executable, "-m", "benchmarks.endpoint", "--turn-s", str(TURN_S)]
    lag = Lag()
    endpoint = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert endpoint.stdout is not None
    port = int(endpoint.stdout.readline())
    try:
        with tempfile.TemporaryDirectory(prefix="vlagent-bench-") as folder:
            items = make_items(Path(folder), SIZES[name], count)
            before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            if profile:
                profile.enable()
            ends = asyncio.run(_run(port, items, Path(folder) / "run", lag, at_once))
            if profile:
                profile.disable()
            wall_s = time.perf_counter() - started
            after = resource.getrusage(resource.RUSAGE_SELF)
            bytes_each = sum(Path(item.images[0].path).stat().st_size for item in items) / count
    finally:
        endpoint.terminate()
        endpoint.wait()
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    late = sorted(lag.found_s)
    return {
        "pictures": name,
        "items": count,
        "file_kb": round(bytes_each / 1024),
        "wall_s": round(wall_s, 2),
        "items_per_s": round(count / wall_s, 2),
        "share": round(count / wall_s / BEST, 3),
        "share_steady": round((count - at_once) / (ends[-1] - ends[at_once - 1]) / BEST, 3) if count > at_once else 0,
        "cpu_ms": round(1000 * cpu_s / count, 1),
        "lag_p50_ms": round(1000 * late[len(late) // 2], 1),
        "lag_p99_ms": round(1000 * late[int(0.99 * len(late))], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, help="by default 50 for each of those that run at one time")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--profile", action="store_true", help="of the first size")
    parser.add_argument("--serial", action="store_true", help="one episode after the other")
    parser.add_argument("--json", action="store_true", help="one line, of the first size")
    args = parser.parse_args()
    at_once = 1 if args.serial else CONCURRENCY
    sizes = args.sizes.split(",")[: 1 if args.json else None]
    for number, name in enumerate(sizes):
        profile = cProfile.Profile(time.thread_time) if args.profile and number == 0 else None
        found = measure(name, args.items or 50 * at_once, profile, at_once=at_once)
        print(json.dumps(found) if args.json else "\n".join(f"{key:14} {value}" for key, value in found.items()))
        if profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
