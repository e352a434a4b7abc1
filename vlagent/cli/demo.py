"""`vlagent demo`: a toy world, played through the real loop, tools, search and evaluation.

The shipped tiny model plays it in the three workflows and once more with the tools broken; without torch, scripted
policies play it instead.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vlagent.agent.config import AgentConfig, preset
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import Watcher, evaluate
from vlagent.bench.summary import Counts, Summary
from vlagent.chat.base import ChatModel
from vlagent.cli.models import close_model, open_model
from vlagent.cli.shipped import default_model, has_torch, settings_of
from vlagent.cli.terminal import console_for
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.report.page import write_report
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.toy.controls import CONTROLS, Setup
from vlagent.toy.world import SYSTEM_PROMPT, Card, WorldConfig, make_world
from vlagent.types import Sample

HELP = "make a toy world, play it, print the table, write the pages"
POLICIES = ("oracle", "random", "direct")
CONTROL = "empty_tools"
"""The negative control: every tool answers, none says anything."""
SPLIT = "test"
PER_KIND = 100
QUICK_PER_KIND = 8
TOOLS = ("image_crop", "text_search", "image_search")


@dataclass(frozen=True)
class Play:
    """One column of the table."""

    name: str
    model: str
    config: AgentConfig
    control: str | None = None


@dataclass
class Stage:
    """The world that is played and where the runs go."""

    folder: Path
    samples: list[Sample]
    setup: Setup
    models: dict[str, ChatModel]
    """Those that are open, by name: a checkpoint is loaded once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `demo`."""
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_PER_KIND} questions a kind, not {PER_KIND}")
    parser.add_argument("--per-kind", type=int, metavar="N", help=f"questions of each kind (default: {PER_KIND})")
    parser.add_argument("--scripted", action="store_true", help="scripted policies instead of the shipped model")
    parser.add_argument("--seed", type=int, default=7, help="of the world and the play (default: 7)")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where to put it (default: runs/demo-TIME)")


def run(args: argparse.Namespace) -> int:
    """Make the world, play it, print the table, write the pages."""
    folder = args.folder or Path("runs") / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    per_kind = (QUICK_PER_KIND if args.quick else PER_KIND) if args.per_kind is None else args.per_kind
    if per_kind < 1:
        raise UserError(f"--per-kind {per_kind}: at least 1")
    console = console_for(sys.stdout)
    started = time.monotonic()
    plays = _plays(None if args.scripted else default_model(), args.seed, console)
    card = _make_world(folder / "world", per_kind, args.seed, console)
    stage = _open_stage(folder)
    summaries = {play.name: _play(play, stage) for play in plays}
    for model in stage.models.values():
        asyncio.run(close_model(model))
    console.print(results_table(summaries, card.splits[SPLIT].guess_levels))
    for play in plays:
        page = write_report(folder / play.name)
        console.print(f"{play.name + ':':<8} {page.resolve()}", style="dim", soft_wrap=True)
    console.print("Open a page in a browser: every question, call, result and box is in it.")
    console.print(f"Ran in {time.monotonic() - started:.0f} s.")
    return 0


def _plays(model: str | None, seed: int, console: Console) -> list[Play]:
    """What is played: the shipped model if it can run here, else scripted policies."""
    if model is None:
        why = (
            ""
            if has_torch()
            else " (torch is not installed: pip install 'vlagent[train]' brings the tiny model's engine)"
        )
        console.print(f"Scripted policies play: one that does everything right, one at random, one that guesses{why}.")
        return [Play(name, f"toy:{name}", preset("paper", tools=TOOLS, seed=seed)) for name in POLICIES]
    console.print(
        f"{model} plays: a model of the Qwen3-VL architecture with 1.5 million parameters, trained on the toy world."
    )
    direct, rag, agent = (
        AgentConfig.model_validate(settings_of(model, name) | {"workflow": name, "seed": seed})
        for name in ("direct", "rag", "agent")
    )
    played = {"direct": direct, "rag": rag, "agent": agent}
    return [*(Play(name, model, config) for name, config in played.items()), Play("control", model, agent, CONTROL)]


def _open_stage(folder: Path) -> Stage:
    samples = load_samples(folder / "world" / f"manifest.json:toy_{SPLIT}")
    search = open_search(folder / "world" / SPLIT / "search")
    return Stage(folder, samples, Setup(make_tools(TOOLS, search=search), search), {})


def _make_world(folder: Path, per_kind: int, seed: int, console: Console) -> Card:
    config = WorldConfig(seed=seed, per_kind={SPLIT: per_kind}, system_prompt=SYSTEM_PROMPT)
    started = time.monotonic()
    with _progress("drawing the world") as told:
        card = make_world(folder, config, told)
    made = card.splits[SPLIT]
    what = f"{made.rows} questions, {made.passages} passages, {made.pictures} titled pictures"
    console.print(f"Toy world, level {config.level}, seed {seed}: {what} ({time.monotonic() - started:.0f} s)")
    return card


def _play(play: Play, stage: Stage) -> Summary:
    """One column through the evaluation, as `vlagent eval` would."""
    if play.model not in stage.models:
        stage.models[play.model] = open_model(play.model, samples=stage.samples)
    config = EvalConfig(
        target=f"{stage.folder / 'world' / 'manifest.json'}:toy_{SPLIT}",
        model=play.model,
        agent=play.config,
        search=str(stage.folder / "world" / SPLIT / "search"),
        concurrency=64,
    )
    setup = CONTROLS[play.control].apply(stage.setup) if play.control else stage.setup
    needed = (
        () if play.config.workflow == "direct" else TOOLS[1:] if play.config.workflow == "rag" else play.config.tools
    )
    run = stage.folder / play.name
    tools = {name: setup.tools[name] for name in needed}
    agent = Agent(stage.models[play.model], play.config, tools, setup.search, folder=run / "images")
    with _progress(f"playing {play.name}") as told:
        done = 0

        def count(_: object) -> None:
            nonlocal done
            done += 1
            told("", done, len(stage.samples))

        watcher = Watcher(on_row=count)
        return asyncio.run(evaluate(config, agent, stage.samples, run, watcher=watcher)).summary


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
    macro = [_macro([kind.accuracy for kind in suite.slices["kind"].values()]) for suite in suites.values()]
    table.add_row("macro average", *macro, f"{100 * mean_level:.1f} %")
    return table


def _macro(shares: list[float | None]) -> str:
    known = [share for share in shares if share is not None]
    return f"{100 * sum(known) / len(known):.1f} %" if known else "none scored"


def _cell(counts: Counts) -> str:
    if counts.accuracy is None or counts.interval is None:
        return f"none scored of {counts.total}"
    low, high = (100 * bound for bound in counts.interval)
    failed = f", {counts.failed} failed" if counts.failed else ""
    return f"{100 * counts.accuracy:.1f} % ({low:.0f}-{high:.0f}){failed}"
