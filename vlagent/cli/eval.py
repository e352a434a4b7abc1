"""`vlagent eval SUITE_OR_MANIFEST`: run every question, score every episode, print the table."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vlagent.agent.config import PRESETS, AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig, check_same, read_config
from vlagent.bench.estimate import describe, estimate
from vlagent.bench.evaluate import Evaluation, Watcher, evaluate
from vlagent.bench.runs import read_samples
from vlagent.bench.suites import check_counts, check_target, data_folder, load_target, names_in, suite_of
from vlagent.bench.table import summary_table
from vlagent.cli import eval_options, judges, taping
from vlagent.cli.eval_options import agent_values, own_values
from vlagent.cli.models import close_model, name_or_default, open_model
from vlagent.cli.offline import check_endpoint, forbid_network
from vlagent.cli.shipped import settings_of
from vlagent.cli.terminal import console_for, one_line, warn
from vlagent.errors import UserError
from vlagent.rewards.matcher import NAME as MATCHER
from vlagent.rewards.opinions import Marker
from vlagent.search.base import SearchServices
from vlagent.search.cache.tape import Tape
from vlagent.tools.registry import make_tools
from vlagent.types import EvalRow, Sample

HELP = "run a suite or a manifest and score it"
EXIT = {"complete": 0, "failures": 3, "stopped": 130, "budget": 4, "time": 4}
add_arguments = eval_options.add_arguments


@dataclass
class Prepared:
    """An evaluation, checked and ready."""

    config: EvalConfig
    agent: Agent
    samples: Sequence[Sample]
    run: Path
    judge: Marker | None


def run(args: argparse.Namespace) -> int:
    """Evaluate; the exit code says how it ended.

    0 done; 3 too many failures; 4 the budget or the time of the run is used up; 130 stopped.
    """
    if args.replay:
        forbid_network()
    elif args.offline:
        check_endpoint(args.base_url, args.model)
        if args.judge_model:
            _check_judges(args)
        forbid_network()
    prepared = prepare(args)
    expected = describe(estimate(prepared.config, prepared.samples, args.like))
    if args.dry_run:
        print(expected)
        return 0
    result = asyncio.run(evaluate_prepared(prepared, expected))
    console_for(sys.stdout).print(summary_table(result.summary))
    agent = prepared.config.agent
    if agent.workflow == "agent" and not (prepared.config.search or args.tools or args.resume):
        warn(f"no --search: the only tools were {', '.join(agent.tools)}")
    _say_how_it_ended(result, prepared.run)
    return EXIT[result.ended]


def _check_judges(args: argparse.Namespace) -> None:
    urls = (judges.judge_url(args) or args.base_url or "").split(",")
    for name in args.judge_model.split(","):
        for url in urls if name.strip() != MATCHER else ():
            check_endpoint(url.strip() or None, name.strip())


def prepare(args: argparse.Namespace) -> Prepared:
    """Check everything that the user gave before anything is asked of a model."""
    tape = taping.open_tape(args)
    samples, search, config, folder = _resumed(args, tape) if args.resume else _fresh(args, tape)
    dialect = config.agent.dialect
    model = taping.taped(
        tape,
        "policy",
        config.model,
        lambda: open_model(config.model, config.base_url, samples=samples, dialect=dialect, **_model_options(config)),
    )
    config = config.model_copy(update={"model": config.model or model.name})
    tools = make_tools(_needed_tools(config.agent, search), search=search)
    known = dict.fromkeys((*config.agent.tools, *tools))
    if unused := [name for name in config.tool_limits if name not in known]:
        raise UserError(f"--tool-limit {unused[0]}: the run has no such tool; it has {', '.join(known)}")
    if (folder / "config.json").exists():
        check_same(read_config(folder), config, folder)
    agent = Agent(
        model=model,
        config=config.agent,
        tools=tools,
        search=search,
        folder=folder / "images",
    )
    return Prepared(config, agent, samples, folder, judges.open_judges(config, folder, tape))


def _model_options(config: EvalConfig) -> dict[str, Any]:
    return {
        "attempts": config.attempts,
        "usd_per_million_prompt_tokens": config.prices.prompt,
        "usd_per_million_completion_tokens": config.prices.completion,
    }


def _fresh(args: argparse.Namespace, tape: Tape | None) -> tuple[list[Sample], SearchServices, EvalConfig, Path]:
    if args.target is None:
        raise UserError("eval: what is to be run? a suite, a manifest or rows, or --resume RUN")
    data = data_folder(args.data)
    check_target(args.target, data)
    model = name_or_default(args.model, args.base_url)
    brought = settings_of(model, args.workflow or "agent")
    given = brought | agent_values(args, brought.get("sampling"))
    samples = load_target(args.target, data, seed=given.get("seed", 0), limit=args.limit, warn=warn)
    for line in check_counts(samples) if args.limit is None else ():
        warn(line)
    search = _open_search(args.search, samples, given.get("top_k", 5), tape)
    if "tools" not in given:
        given["tools"] = _available_tools(search)
    config = eval_options.checked(own_values(args) | _rollouts(args, samples) | {"agent": given})
    folder = args.run or Path("runs") / f"eval-{Path(args.target).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    return samples, search, config, folder


def _rollouts(args: argparse.Namespace, samples: Sequence[Sample]) -> dict[str, Any]:
    """The published number for each suite that is named, unless one number is given for all."""
    if args.k is not None or not names_in(args.target):
        return {"k": 1 if args.k is None else args.k}
    suites = {source: suite_of(source) for source in dict.fromkeys(sample.source for sample in samples)}
    wanted = {source: suite.k for source, suite in suites.items() if suite is not None}
    if len(set(wanted.values())) == 1:
        return {"k": next(iter(wanted.values()))}
    return {"k": 1, "k_of": {source: k for source, k in wanted.items() if k > 1}}


def _resumed(args: argparse.Namespace, tape: Tape | None) -> tuple[list[Sample], SearchServices, EvalConfig, Path]:
    """The run's own samples and configuration; what is given besides must agree, or be free to change."""
    if args.run and args.run != args.resume:
        raise UserError(f"--resume {args.resume}: the run folder is that one; leave --run out")
    before = read_config(args.resume)
    table = before.model_dump(mode="json")
    agent = table["agent"] | (PRESETS[args.preset] if args.preset else {}) | agent_values(args)
    config = eval_options.checked(table | own_values(args, before) | {"agent": agent})
    check_same(before, config, args.resume)
    samples = read_samples(args.resume)
    return samples, _open_search(config.search, samples, config.agent.top_k, tape), config, args.resume


def _open_search(folder: str | None, samples: Sequence[Sample], top_k: int, tape: Tape | None) -> SearchServices:
    if folder is None and not any(sample.image_search for sample in samples):
        return SearchServices()
    from vlagent.search.open import open_search

    return open_search(Path(folder) if folder else None, top_k=top_k, tape=tape)


def _available_tools(search: SearchServices) -> tuple[str, ...]:
    found = {"text_search": search.text, "image_search": search.images}
    return ("image_crop", *(name for name, service in found.items() if service is not None))


def _needed_tools(config: AgentConfig, search: SearchServices) -> tuple[str, ...]:
    if config.workflow == "agent":
        return config.tools
    if config.workflow == "direct":
        return ()
    if search.text is None:
        raise UserError("--workflow rag: there is no text index; give one with --search (vlagent index text makes it)")
    return ("text_search", "image_search") if search.images else ("text_search",)


async def evaluate_prepared(prepared: Prepared, expected: str) -> Evaluation:
    """Evaluate with a bar on stderr, and `expected` said before the first episode; closes everything at the end."""
    watcher = Watcher()
    stop_on_interrupt(watcher.stop)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    console = console_for(sys.stderr)
    shown = (*columns, TimeRemainingColumn())
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=None)
        tally = {"right": 0, "failed": 0}

        def on_row(row: EvalRow) -> None:
            for name in tally:
                tally[name] += row.outcome == name
            progress.update(bar, advance=1, description=f"{tally['right']} right, {tally['failed']} failed")

        watcher.on_row = on_row

        def on_start(done: int, planned: int) -> None:
            if done == 0 and expected:
                warn(expected)
            progress.update(bar, total=planned, completed=done)

        watcher.on_start = on_start
        try:
            return await evaluate(
                prepared.config, prepared.agent, prepared.samples, prepared.run, prepared.judge, watcher
            )
        finally:
            await close_model(prepared.agent.model)
            await prepared.agent.search.aclose()
            await judges.close_judges(prepared.judge)


def stop_on_interrupt(stop: asyncio.Event) -> None:
    """The first Ctrl-C ends the run in order, the second at once."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        warn("stopping; press Ctrl-C again to leave at once")
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)


def _say_how_it_ended(result: Evaluation, run: Path) -> None:
    counts = result.summary.counts
    for note in result.summary.notes:
        warn(note)
    if result.ended == "failures":
        warn(f"{counts.failed} of {counts.planned} episodes failed, at last: {one_line(result.last_failure)}")
    elif result.ended == "stopped":
        warn("stopped")
    elif result.ended in ("budget", "time"):
        warn(f"the {result.ended} of the run is used up; raise it to go on")
    elif counts.failed:
        warn(f"{counts.failed} of {counts.total} episodes failed and count neither as right nor as wrong")
    if counts.failed or counts.pending or counts.not_counted:
        warn(f"go on with: vlagent eval --resume {run}")
    print(f"{run / 'summary.json'} (vlagent report {run} makes the page)", file=sys.stderr)
