"""Issue 4: search under load and faults, addresses that lead inwards, a dump, passages, pictures, a recording."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from accept.harness import ROOT, Context, Figure, Item, dump
from accept.issue_4_guard import browser_paths, direct_probes, ordinary_pages, redirect_probes
from accept.issue_4_replay import replay
from benchmarks import pictures as picture_benchmark
from benchmarks import retrieval as retrieval_benchmark
from benchmarks import server as server_benchmark
from tests.search.pages.test_browser import kill_when
from tests.search.server.test_fault_table import DEPENDENCIES, table
from tests.search.server.world import World
from tests.search.wiki_dump import write_dump
from vlagent.search import pipeline
from vlagent.search.base import TextQuery
from vlagent.search.text_index import TextIndex

SEED = 4
DUMP_MB = {False: 50.0, True: 5.0}
PASSAGES = {False: 300_000, True: 20_000}
PICTURES = {False: (500, 120), True: (120, 30)}
"""Pictures and targets (six queries each), by QUICK."""
RENDERED = 24
"""Pages that are being rendered when their browser is killed."""
BARS = {"jpeg_30": "jpeg", "half_size": "resize", "turned_10": "rotate", "crop_70": "crop70", "pasted": "pasted"}


def server(ctx: Context) -> list[Figure]:
    """Load by wrk; sabotaged, the server answers one query at a time."""
    options = ["--at-once", "1"] if ctx.broken else []
    found = server_benchmark.measure(ctx.few(8, 4), options)
    dump(ctx.folder, found)
    note = f"load average {found['load_average']:.1f} on {os.cpu_count()} cores"
    flat = {
        "cached_share": found["cached_share"],
        "cached_per_s": found["cached_per_s"],
        "uncached_per_s": found["uncached"]["per_s"],
        "uncached_p50_s": found["uncached"]["p50_ms"] / 1000,
        "local_per_s": found["local"]["per_s"],
        "identical_searches": found["identical"]["searches"],
        "identical_pages": found["identical"]["pages"],
        "identical_summaries": found["identical"]["summaries"],
        "load_failed": found["failed"],
    }
    return [Figure(name, value, 1, note=note) for name, value in flat.items()]


def faults(ctx: Context) -> list[Figure]:
    """Each dependency times each fault; sabotaged, degraded answers are kept like good ones."""
    always = patch.object(pipeline, "_if_good", lambda ttl_s: lambda _: ttl_s)
    if ctx.broken:
        always.start()
    try:
        cells = asyncio.run(table())
    finally:
        if ctx.broken:
            always.stop()
    dump(ctx.folder, cells)
    bad = [found for found in cells if found["ends"] != DEPENDENCIES[found["dependency"]].ends]
    sick = [found for found in cells if found["healed"] != "right" or not found["right"]]
    return [
        Figure("fault_cells", len(cells), len(cells)),
        Figure("fault_cells_badly_ended", len(bad), len(cells), note=_named(bad)),
        Figure("fault_cells_not_healed", len(sick), len(cells), note=_named(sick)),
        Figure("fault_slowest_s", max(found["seconds"] for found in cells), len(cells)),
    ]


def _named(cells: list[dict[str, Any]]) -> str:
    return " ".join(f"{found['dependency']}/{found['fault']}" for found in cells[:6])


def browser(ctx: Context) -> list[Figure]:
    """The browser is killed under load; sabotaged, it is killed again and again."""
    figures = asyncio.run(_rendering(3 if ctx.broken else 1))
    dump(ctx.folder, [vars(figure) for figure in figures])
    return figures


async def _rendering(kills: int) -> list[Figure]:
    """Queries whose pages are all rendered, and as many kills in their midst."""
    pages = {"javascript": "always", "timeout_s": 120.0, "tabs": 4, "workers": 1}
    world = World(live={"pages": pages}, options={"deadline_s": 300.0}, patience_s=120.0)
    async with world.open():
        world.serper.links = lambda query: [f"{world.pages.url}/script/{len(query)}/{n}" for n in range(2)]
        web = world.desk.live.web
        assert web
        await web.read(f"{world.pages.url}/script/first")  # a browser is there
        before, killed = world.pages.counts["pages"], 0
        asking = [asyncio.ensure_future(world.ask("tower " * (n + 1))) for n in range(RENDERED // 2)]
        for kill in range(kills):
            killed += len(await kill_when(_asked(world, before + 3 + 2 * kill)))
        said = await asyncio.gather(*asking)
        lost = sum(each.status_code != 200 or "x-degraded" in each.headers for each in said)
        retried = world.pages.counts["pages"] - before - RENDERED
        return [
            Figure("browser_kills", killed, RENDERED),
            Figure("browser_lost", lost, RENDERED, note=f"{web.browsers.launched} launches"),
            Figure("browser_retried_most", retried, RENDERED, note="pages asked for twice"),
        ]


def _asked(world: World, pages: int) -> Callable[[], bool]:
    return lambda: world.pages.counts["pages"] >= pages


def ssrf(ctx: Context) -> list[Figure]:
    """Addresses that lead inwards; sabotaged, every address is exempt."""
    found = asyncio.run(_probes(ctx.broken))
    dump(ctx.folder, found)
    probes = sum(part["probes"] for part in found.values())
    passed = [name for part in found.values() for name in part["passed"]]
    ordinary = asyncio.run(ordinary_pages())
    return [
        Figure("ssrf_probes", probes, probes),
        Figure("ssrf_passed", len(passed), probes, note=" ".join(passed[:4])),
        Figure("ssrf_ordinary_refused", len(ordinary["refused"]), ordinary["pages"]),
    ]


async def _probes(broken: bool) -> dict[str, dict[str, Any]]:
    return {
        "direct": await direct_probes(broken),
        "redirects": await redirect_probes(broken),
        "browser": await browser_paths(),
    }


def wiki(ctx: Context) -> list[Figure]:
    """A dump, killed half-way and resumed; sabotaged, the index is asked for what another dump says."""
    path, folder = ctx.folder / "dump.xml.bz2", ctx.folder / "index"
    shutil.rmtree(folder, ignore_errors=True)
    planted = write_dump(path, megabytes=DUMP_MB[ctx.quick], seed=SEED)
    share = _killed_half_way(path, folder)
    started = time.monotonic()
    subprocess.run(_index(path, folder), cwd=ROOT, check=True, capture_output=True)
    seconds = time.monotonic() - started
    if ctx.broken:
        planted = write_dump(ctx.folder / "other.xml.bz2", megabytes=2, seed=SEED + 1)
    names = [json.loads(line)["id"] for file in (folder / "wiki").glob("passages-*.jsonl") for line in file.open()]
    index = TextIndex(folder / "text")
    asked = planted[:: max(1, len(planted) // 300)]
    right = sum(_says(index, f"who founded {one.query}", one.founder) for one in asked)
    pages = {str(name).split("#")[0].split("-")[0] for name in names}
    return [
        Figure("wiki_mb", DUMP_MB[ctx.quick], len(planted), SEED, f"{len(planted)} articles"),
        Figure("wiki_killed_at_share", share, 1, SEED),
        Figure("wiki_resumed_s", seconds, 1, SEED),
        Figure("wiki_passages_twice", len(names) - len(set(names)), len(names), SEED, f"{len(pages)} pages"),
        Figure("wiki_found_share", right / len(asked), len(asked), SEED),
    ]


def _index(path: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "vlagent", "index", "wiki", str(path), str(folder), "--workers", "1"]


_KILLED = """
import os, signal, sys
from pathlib import Path
from vlagent.search.wiki.build import WikiOptions, index_wiki

def tell(now):
    if 2 * now.packed_bytes > now.total_bytes:
        print(now.packed_bytes / now.total_bytes, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

index_wiki(Path(sys.argv[1]), Path(sys.argv[2]), WikiOptions(workers=1), progress=tell)
"""


def _killed_half_way(path: Path, folder: Path) -> float:
    """Kill -9 when half of the dump has been read; the share that was."""
    command = [sys.executable, "-c", _KILLED, str(path), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != -signal.SIGKILL:
        raise RuntimeError(f"it was to be killed and ended with {done.returncode}: {done.stderr[-500:]}")
    return float(done.stdout)


def _says(index: TextIndex, question: str, words: str) -> bool:
    return any(words in hit.text for hit in index.find(TextQuery(text=question, top_k=5)))


def retrieval(ctx: Context) -> list[Figure]:
    """Passages against bm25s in one run; sabotaged, each query is said to be about another passage."""
    draw = patch.object(random.Random, "sample", lambda _, words, k: words[:1] * k)
    if ctx.broken:
        draw.start()
    folder = ctx.folder / "size"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        found = retrieval_benchmark.size(folder, PASSAGES[ctx.quick], ("tantivy", "bm25s"))
    finally:
        if ctx.broken:
            draw.stop()
        shutil.rmtree(folder, ignore_errors=True)
    dump(ctx.folder, found)
    ours, theirs, n = found["tantivy"], found["bm25s"], PASSAGES[ctx.quick]
    names = ("build_s", "build_peak_mb", "disk_mb", "open_mb", "p50_ms", "p99_ms")
    return [
        Figure("retrieval_recall_at_1", ours["recall_at_1"], n, note=f"bm25s {theirs['recall_at_1']:.2f}"),
        Figure("retrieval_recall_to_bm25s", ours["recall_at_1"] / max(theirs["recall_at_1"], 1e-9), n),
        *(Figure(f"retrieval_{name}", ours[name], n, note=f"bm25s {theirs[name]:.4g}") for name in names),
    ]


def pictures(ctx: Context) -> list[Figure]:
    """Reverse image search; sabotaged, every query is a tenth of its picture."""
    tenth = {name: picture_benchmark.cropped(0.1) for name in picture_benchmark.CHANGES}
    changes = patch.dict(picture_benchmark.CHANGES, tenth if ctx.broken else {})
    with changes:
        found = picture_benchmark.measure(*PICTURES[ctx.quick])
    dump(ctx.folder, found)
    n, queries = found["pictures"]["all"], found["queries"]
    recall = found["recall"]
    shown = {name: " ".join(f"{source} {share:.2f}" for source, share in row.items()) for name, row in recall.items()}
    paper = found["on_paper"]
    return [
        Figure("pictures", n, n, note=f"{found['pictures']['photo']} of photographs"),
        Figure("picture_queries", queries, queries),
        *(Figure(f"picture_{short}", recall[name]["all"], queries, note=shown[name]) for name, short in BARS.items()),
        Figure("picture_crop40", recall["crop_40"]["all"], queries, note=shown["crop_40"]),
        Figure(
            "picture_time_to_flat",
            found["ratio_to_flat"],
            queries,
            note=f"CPU p50 {found['query_cpu_ms']['p50']:.0f} ms",
        ),
        Figure("picture_100k_build_cpu_h", paper["build_cpu_hours"], n, note=json.dumps(paper)[:200]),
    ]


ITEMS: dict[str, Item] = {
    "server": server,
    "faults": faults,
    "browser": browser,
    "ssrf": ssrf,
    "wiki": wiki,
    "retrieval": retrieval,
    "pictures": pictures,
    "replay": replay,
}
