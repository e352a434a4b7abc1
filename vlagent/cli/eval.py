"""`vlagent eval SUITE_OR_MANIFEST`: run every question, score every episode, print the table."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from vlagent.agent.config import PRESETS, AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig, check_same, read_config
from vlagent.bench.evaluate import Evaluation, Watcher, evaluate
from vlagent.bench.runs import read_samples
from vlagent.bench.suites import SUITES, check_counts, check_target, data_folder, load_target, rollouts_of
from vlagent.bench.table import summary_table
from vlagent.cli import taping
from vlagent.cli.models import (
    WORKFLOW_HELP,
    WORKFLOWS,
    close_model,
    name_or_default,
    open_model,
)
from vlagent.cli.offline import check_endpoint, forbid_network
from vlagent.cli.shipped import settings_of
from vlagent.cli.terminal import console_for, one_line
from vlagent.errors import UserError
from vlagent.render.dialects import DIALECTS
from vlagent.render.prompts import load_prompts
from vlagent.render.sizing import LIMITS
from vlagent.rewards.judge import Judge
from vlagent.search.base import SearchServices
from vlagent.search.cache.tape import Tape
from vlagent.tools.registry import TOOLS, make_tools
from vlagent.types import EvalRow, Sample

HELP = "run a suite or a manifest and score it"
AGENT_KEYS = ("workflow", "dialect", "max_turns", "time_limit_s", "top_k", "seed", "crop_source")
OWN_KEYS = (
    *("target", "data", "model", "base_url", "search", "k", "limit", "judge_model", "judge_base_url", "attempts"),
    *("concurrency", "model_limit", "max_failed_share"),
)
EXIT = {"complete": 0, "failures": 3, "stopped": 130}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `eval`; what is not given stays None, so that a resumed run keeps its own value."""
    suites = ", ".join(SUITES)
    parser.add_argument("target", nargs="?", help=f"manifest.json[:entry,...], rows, or SUITE[,SUITE...] of {suites}")
    parser.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA; see bench)")
    parser.add_argument("--run", type=Path, metavar="DIR", help="run folder; goes on with it if it holds a part")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run, with its own configuration")
    _add_model_arguments(parser)
    _add_agent_arguments(parser)
    parser.add_argument("--k", type=int, metavar="N", help="rollouts a question, Avg@k (default: the suite's, else 1)")
    parser.add_argument("--limit", type=int, metavar="N", help="first N questions of each data set")
    parser.add_argument("--concurrency", type=int, metavar="N", help="episodes at one time (default: 16)")
    parser.add_argument("--model-limit", type=int, metavar="N", help="model calls at one time")
    parser.add_argument("--tool-limit", action="append", metavar="TOOL=N", help="calls of a tool at one time")
    parser.add_argument("--max-failed-share", type=float, metavar="X", help="stop past this share (default: 0.1)")
    parser.add_argument("--offline", action="store_true", help="forbid every connection beyond this machine")
    taping.add_arguments(parser)


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", help="name that the endpoint knows it by; toy:oracle|random|direct; local:FOLDER; shipped:NAME"
    )
    parser.add_argument("--base-url", help="OpenAI-compatible endpoint, or an Azure one (default: OpenAI's own)")
    parser.add_argument("--attempts", type=int, metavar="N", help="tries of one call (default: 5)")
    parser.add_argument("--judge-model", help="judge of open answers (default: rules alone)")
    parser.add_argument("--judge-base-url", help="its endpoint (LLM_JUDGE_URL; default: that of --base-url)")
    parser.add_argument("--judge-text-only", action="store_true", default=None, help="show the judge no pictures")


def _add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=tuple(PRESETS), help="a published setting; other options win over it")
    parser.add_argument("--workflow", choices=WORKFLOWS, help=WORKFLOW_HELP)
    parser.add_argument("--dialect", help=f"wire form: {', '.join(DIALECTS)} (default: default)")
    parser.add_argument("--search", metavar="DIR", help="index made by `vlagent index`, or a live.toml")
    parser.add_argument(
        "--tools", metavar="A,B", help=f"of {', '.join(TOOLS)} (default: image_crop, and the searches there are)"
    )
    parser.add_argument("--max-turns", type=int, metavar="N", help="model calls of an episode at most (default: 10)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", dest="time_limit_s", help="of one episode")
    parser.add_argument("--temperature", type=float, help="of sampling (default: 0)")
    parser.add_argument("--top-k", type=int, metavar="N", help="results of a search")
    parser.add_argument("--seed", type=int, help="decides every draw (default: 0)")
    parser.add_argument("--pixels", choices=tuple(LIMITS), help="picture sizes of which model family")
    parser.add_argument(
        "--crop-source", choices=("original", "view"), help="crop from the file, or from what the model saw"
    )
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="your own prompts (TOML or JSON)")


@dataclass
class Prepared:
    """An evaluation, checked and ready."""

    config: EvalConfig
    agent: Agent
    samples: Sequence[Sample]
    run: Path
    judge: Judge | None


def run(args: argparse.Namespace) -> int:
    """Evaluate; the exit code says how it ended: 0 done, 3 too many failures, 130 stopped."""
    if args.replay:
        forbid_network()
    elif args.offline:
        check_endpoint(args.base_url, args.model)
        if args.judge_model:
            check_endpoint(_judge_url(args) or args.base_url, args.judge_model)
        forbid_network()
    prepared = prepare(args)
    result = asyncio.run(_evaluate(prepared))
    console_for(sys.stdout).print(summary_table(result.summary))
    agent = prepared.config.agent
    if agent.workflow == "agent" and not (prepared.config.search or args.tools or args.resume):
        _warn(f"no --search: the only tools were {', '.join(agent.tools)}")
    _say_how_it_ended(result, prepared.run)
    return EXIT[result.ended]


def prepare(args: argparse.Namespace) -> Prepared:
    """Check everything that the user gave before anything is asked of a model."""
    tape = taping.open_tape(args)
    samples, search, config, folder = _resumed(args, tape) if args.resume else _fresh(args, tape)
    dialect = config.agent.dialect
    model = taping.taped(
        tape,
        "policy",
        config.model,
        lambda: open_model(config.model, config.base_url, samples=samples, dialect=dialect, attempts=config.attempts),
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
    return Prepared(config, agent, samples, folder, _open_judge(config, folder, tape))


def _fresh(args: argparse.Namespace, tape: Tape | None) -> tuple[list[Sample], SearchServices, EvalConfig, Path]:
    if args.target is None:
        raise UserError("eval: what is to be run? a suite, a manifest or rows, or --resume RUN")
    data = data_folder(args.data)
    check_target(args.target, data)
    model = name_or_default(args.model, args.base_url)
    brought = settings_of(model, args.workflow or "agent")
    given = brought | _agent_values(args, brought.get("sampling"))
    samples = load_target(args.target, data, seed=given.get("seed", 0), limit=args.limit, warn=_warn)
    for line in check_counts(samples) if args.limit is None else ():
        _warn(line)
    search = _open_search(args.search, samples, given.get("top_k", 5), tape)
    if "tools" not in given:
        given["tools"] = _available_tools(search)
    own = _own_values(args) | {"k": rollouts_of(args.target) if args.k is None else args.k, "agent": given}
    config = _checked(own)
    folder = args.run or Path("runs") / f"eval-{Path(args.target).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    return samples, search, config, folder


def _resumed(args: argparse.Namespace, tape: Tape | None) -> tuple[list[Sample], SearchServices, EvalConfig, Path]:
    """The run's own samples and configuration; what is given besides must agree, or be free to change."""
    if args.run and args.run != args.resume:
        raise UserError(f"--resume {args.resume}: the run folder is that one; leave --run out")
    before = read_config(args.resume)
    table = before.model_dump(mode="json")
    agent = table["agent"] | (PRESETS[args.preset] if args.preset else {}) | _agent_values(args)
    config = _checked(table | _own_values(args) | {"agent": agent})
    check_same(before, config, args.resume)
    samples = read_samples(args.resume)
    return samples, _open_search(config.search, samples, config.agent.top_k, tape), config, args.resume


def _own_values(args: argparse.Namespace) -> dict[str, Any]:
    given = {name: getattr(args, name) for name in OWN_KEYS if getattr(args, name) is not None}
    if args.judge_text_only:
        given["judge_with_images"] = False
    if given.get("judge_model"):
        given["judge_base_url"] = _judge_url(args) or args.base_url
    if args.tool_limit:
        given["tool_limits"] = dict(_tool_limit(text) for text in args.tool_limit)
    return given


def _judge_url(args: argparse.Namespace) -> str | None:
    return args.judge_base_url or os.environ.get("LLM_JUDGE_URL")


def _agent_values(args: argparse.Namespace, sampling: dict[str, Any] | None = None) -> dict[str, Any]:
    """What was given on the command line; `sampling` is the model's own, of which one value may be given."""
    given: dict[str, Any] = dict(PRESETS[args.preset]) if args.preset else {}
    given |= {name: getattr(args, name) for name in AGENT_KEYS if getattr(args, name) is not None}
    if args.temperature is not None:
        given["sampling"] = given.get("sampling", sampling or {}) | {"temperature": args.temperature}
    if args.tools is not None:
        given["tools"] = tuple(name.strip() for name in args.tools.split(",") if name.strip())
    if args.pixels:
        given["pixels"] = LIMITS[args.pixels].model_dump()
    if args.prompts:
        given["prompts"] = load_prompts(args.prompts).model_dump()
    return given


def _tool_limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not name or not number.isdecimal() or int(number) < 1:
        raise UserError(f"--tool-limit {text}: write it as TOOL=N with N of at least 1")
    return name, int(number)


def _checked(table: dict[str, Any]) -> EvalConfig:
    try:
        return EvalConfig.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "configuration"
        raise UserError(f"{key} = {first['input']!r}: {first['msg']}") from None


def _open_search(folder: str | None, samples: Sequence[Sample], top_k: int, tape: Tape | None) -> SearchServices:
    if folder is None and not any(sample.image_search for sample in samples):
        return SearchServices()
    if folder is not None and folder.endswith(".toml"):
        from vlagent.search.live import open_live_file

        return open_live_file(Path(folder), top_k=top_k, tape=tape)
    from vlagent.search.open import open_search

    return open_search(Path(folder) if folder else None, top_k=top_k)


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


def _open_judge(config: EvalConfig, folder: Path, tape: Tape | None) -> Judge | None:
    if config.judge_model is None:
        return None
    name, url = config.judge_model, config.judge_base_url
    model = taping.taped(tape, "judge", name, lambda: open_model(name, url, attempts=config.attempts))
    return Judge(model, with_images=config.judge_with_images, cache=folder / "judge.jsonl")


async def _evaluate(prepared: Prepared) -> Evaluation:
    watcher = Watcher()
    _stop_on_interrupt(watcher.stop)
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
        watcher.on_start = lambda done, planned: progress.update(bar, total=planned, completed=done)
        try:
            return await evaluate(
                prepared.config, prepared.agent, prepared.samples, prepared.run, prepared.judge, watcher
            )
        finally:
            await close_model(prepared.agent.model)
            await prepared.agent.search.aclose()
            if prepared.judge:
                await close_model(prepared.judge.model)


def _stop_on_interrupt(stop: asyncio.Event) -> None:
    """The first Ctrl-C ends the run in order, the second at once."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        _warn("stopping; press Ctrl-C again to leave at once")
        stop.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)


def _say_how_it_ended(result: Evaluation, run: Path) -> None:
    counts = result.summary.counts
    for note in result.summary.notes:
        _warn(note)
    if result.ended == "failures":
        _warn(f"{counts.failed} of {counts.planned} episodes failed, at last: {one_line(result.last_failure)}")
    elif result.ended == "stopped":
        _warn("stopped")
    elif counts.failed:
        _warn(f"{counts.failed} of {counts.total} episodes failed and count neither as right nor as wrong")
    if counts.failed or counts.pending or counts.not_counted:
        _warn(f"go on with: vlagent eval --resume {run}")
    print(f"{run / 'summary.json'} (vlagent report {run} makes the page)", file=sys.stderr)


def _warn(text: str) -> None:
    print(f"vlagent: {one_line(text)}", file=sys.stderr)
