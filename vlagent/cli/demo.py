"""`vlagent demo`: a toy world, and three scripted policies through the real loop, tools, search and evaluation."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vlagent.agent.config import preset
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import Watcher, evaluate
from vlagent.bench.summary import Counts, Summary
from vlagent.cli.models import open_model
from vlagent.cli.terminal import console_for
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.report.page import write_report
from vlagent.search.base import SearchServices
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.toy.world import Card, WorldConfig, make_world
from vlagent.types import Sample

HELP = "make a toy world, run policies through it, print the table"
POLICIES = ("oracle", "random", "direct")
SPLIT = "test"
PER_KIND = 40
QUICK_PER_KIND = 8
TOOLS = ("image_crop", "text_search", "image_search")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `demo`."""
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PER_KIND} questions a kind, not {PER_KIND}")
    parser.add_argument("--per-kind", type=int, metavar="N", help="questions of each of the five kinds")
    parser.add_argument("--seed", type=int, default=7, help="decides what is drawn (default: 7)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put it (default: runs/demo-TIME)")


def run(args: argparse.Namespace) -> int:
    """Make the world, run the policies, print the table, write the pages."""
    folder = args.folder or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    per_kind = (QUICK_PER_KIND if args.quick else PER_KIND) if args.per_kind is None else args.per_kind
    if per_kind < 1:
        raise UserError(f"--per-kind {per_kind}: at least 1")
    console = console_for(sys.stdout)
    card = _make_world(folder / "world", per_kind, args.seed, console)
    samples = load_samples(folder / "world" / f"manifest.json:toy_{SPLIT}")
    search = open_search(folder / "world" / SPLIT / "search")
    summaries = {name: _play(name, samples, search, folder, args.seed) for name in POLICIES}
    console.print(results_table(summaries, card.splits[SPLIT].guess_levels))
    for name in POLICIES:
        page = write_report(folder / name)
        console.print(f"{name + ':':<8} {page.resolve()}", style="dim", soft_wrap=True)
    console.print("Open a page in a browser: every question, call, result and box is in it.")
    return 0


def _make_world(folder: Path, per_kind: int, seed: int, console: Console) -> Card:
    config = WorldConfig(seed=seed, per_kind={SPLIT: per_kind})
    started = time.monotonic()
    with _progress("drawing the world") as told:
        card = make_world(folder, config, told)
    made = card.splits[SPLIT]
    what = f"{made.rows} questions, {made.passages} passages, {made.pictures} titled pictures"
    console.print(f"Toy world, level {config.level}, seed {seed}: {what} ({time.monotonic() - started:.0f} s)")
    return card


def _play(name: str, samples: list[Sample], search: SearchServices, folder: Path, seed: int) -> Summary:
    """One policy through the evaluation, as `vlagent eval` would."""
    model = open_model(f"toy:{name}", samples=samples)
    config = EvalConfig(
        target=f"{folder / 'world' / 'manifest.json'}:toy_{SPLIT}",
        model=model.name,
        agent=preset("paper", tools=TOOLS, seed=seed),
        search=str(folder / "world" / SPLIT / "search"),
        concurrency=8,
    )
    agent = Agent(model, config.agent, make_tools(TOOLS, search=search), search, folder=folder / name / "images")
    with _progress(f"playing {name}") as told:
        done = 0

        def count(_: object) -> None:
            nonlocal done
            done += 1
            told("", done, len(samples))

        watcher = Watcher(on_row=count)
        return asyncio.run(evaluate(config, agent, samples, folder / name, watcher=watcher)).summary


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr, where that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = console_for(sys.stderr)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda part, done, total: bar.update(task, completed=done, total=total, description=part or what)


def results_table(summaries: dict[str, Summary], guess_levels: dict[str, float]) -> Table:
    """Accuracy by kind, a column a policy, beside what guessing would get."""
    table = Table(title="Right answers by kind of question, with 95 % intervals")
    table.add_column("kind")
    for name in (*summaries, "guess level"):
        table.add_column(name, justify="right")
    suites = {name: next(iter(summary.suites.values())) for name, summary in summaries.items()}
    for kind, level in guess_levels.items():
        cells = [_cell(suite.slices["kind"][kind]) for suite in suites.values()]
        table.add_row(kind, *cells, f"{100 * level:.1f} %")
    table.add_section()
    mean_level = sum(guess_levels.values()) / len(guess_levels)
    table.add_row("all", *(_cell(suite.counts) for suite in suites.values()), f"{100 * mean_level:.1f} %")
    return table


def _cell(counts: Counts) -> str:
    if counts.accuracy is None or counts.interval is None:
        return f"none scored of {counts.total}"
    low, high = (100 * bound for bound in counts.interval)
    failed = f", {counts.failed} failed" if counts.failed else ""
    return f"{100 * counts.accuracy:.1f} % ({low:.0f}-{high:.0f}){failed}"
