"""`vlagent ask IMAGE [IMAGE...] "QUESTION"`: one question, watched live, kept in a run folder."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from vlagent.agent.config import AgentConfig, preset
from vlagent.agent.events import Ended, Event
from vlagent.agent.loop import Agent, run_agent
from vlagent.agent.store import write_trajectory
from vlagent.cli.confirm import Confirm
from vlagent.cli.live import LiveView
from vlagent.cli.models import (
    MODEL_HELP,
    WORKFLOW_HELP,
    WORKFLOWS,
    close_model,
    name_or_default,
    open_model,
)
from vlagent.cli.offline import check_endpoint, forbid_network
from vlagent.cli.shipped import settings_of
from vlagent.cli.terminal import clean, console_for, describe, one_line, to_json
from vlagent.errors import UserError
from vlagent.files import append_jsonl, write_json
from vlagent.images import probe
from vlagent.render.dialects import DIALECTS
from vlagent.render.prompts import load_prompts
from vlagent.report.page import write_report
from vlagent.search.base import SearchServices
from vlagent.tools.base import Tool
from vlagent.tools.registry import TOOLS, make_tools
from vlagent.types import Sample, StopReason, Trajectory, Turn

HELP = "ask a question about pictures"
EPILOG = """\
examples:
  vlagent ask photo.jpg "What does the sign say?" --base-url http://127.0.0.1:8000/v1
  vlagent ask a.jpg b.jpg "Which is older?" --model NAME --base-url URL --search my-index --json

The key comes from VLAGENT_API_KEY or OPENAI_API_KEY. Exit code: 0 answered, 2 a mistake in what was given,
3 the model or a tool failed, 4 no answer within the limits or stopped by you, 130 Ctrl-C."""
SERVICE_FAILED = {StopReason.TOOL_FAILURE, StopReason.MODEL_FAILURE}
EXIT = {StopReason.ANSWERED: 0, StopReason.TOOL_FAILURE: 3, StopReason.MODEL_FAILURE: 3, StopReason.CANCELLED: 130}
"""Any other ending is a limit, or the user's stop: 4."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `ask`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("words", nargs="+", metavar="IMAGE... QUESTION", help="pictures, then the question in quotes")
    parser.add_argument("--model", help=MODEL_HELP)
    parser.add_argument("--base-url", help="OpenAI-compatible endpoint, or an Azure one (default: OpenAI's own)")
    parser.add_argument("--attempts", type=int, default=5, metavar="N", help="tries of one model call (default: 5)")
    parser.add_argument("--dialect", help=f"wire form: {', '.join(DIALECTS)} (default: default)")
    parser.add_argument("--search", type=Path, metavar="DIR", help="index made by `vlagent index`, or a live.toml")
    parser.add_argument("--workflow", choices=WORKFLOWS, help=WORKFLOW_HELP)
    parser.add_argument("--tools", metavar="A,B", help=f"of {', '.join(TOOLS)} (default: image_crop, and what DIR has)")
    parser.add_argument("--max-turns", type=int, metavar="N", help="model calls at most (default: 10)")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="of the whole episode (default: none)")
    parser.add_argument("--temperature", type=float, help="of sampling (default: 0, or the checkpoint's own)")
    parser.add_argument("--prompts", type=Path, metavar="FILE", help="your own prompts (TOML or JSON)")
    parser.add_argument("--confirm", action="store_true", help="ask before each call")
    parser.add_argument("--offline", action="store_true", help="forbid every connection beyond this machine")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else")
    parser.add_argument("--run", type=Path, metavar="DIR", help="run folder (default: runs/ask-TIME)")


@dataclass
class Asked:
    """One question, ready to be played."""

    agent: Agent
    sample: Sample
    run: Path
    live: LiveView
    ended: Trajectory | None = None
    """Set by the `Ended` event, on cancellation too."""

    def watch(self, event: Event) -> None:
        self.live(event)
        if isinstance(event, Ended):
            self.ended = event.trajectory


def run(args: argparse.Namespace) -> int:
    """Play one episode; the exit code says how it ended."""
    if args.offline:
        check_endpoint(args.base_url, args.model)
        forbid_network()
    asked = prepare(args)
    try:
        asyncio.run(_play(asked))
    except KeyboardInterrupt:
        print("vlagent: stopped", file=sys.stderr)
    return finish(asked, as_json=args.json)


def prepare(args: argparse.Namespace) -> Asked:
    """Check everything that the user gave before anything is asked of a model."""
    sample = sample_of(args.words)
    search = _open_search(args.search)
    args.model = name_or_default(args.model, args.base_url)
    config = config_of(args, _tool_names(args, search))
    tools = make_tools(config.tools, search=search) if config.workflow == "agent" else _rag_tools(config, search)
    model = open_model(args.model, args.base_url, dialect=config.dialect, attempts=args.attempts)
    folder = new_run_folder(args.run)
    live = LiveView(console_for(sys.stderr))
    hook = Confirm(live.console, tools, live) if args.confirm else None
    agent = Agent(model=model, config=config, tools=tools, search=search, hook=hook, folder=folder / "images")
    asked = Asked(agent, sample, folder, live)
    agent.watch = asked.watch
    append_jsonl(folder / "samples.jsonl", sample)
    write_json(folder / "config.json", _resolved(args, config, model.name))
    return asked


def sample_of(words: list[str]) -> Sample:
    """The pictures and the question; a mistake is one line."""
    *pictures, question = words
    if not pictures or Path(question).is_file():
        last = one_line(question)
        raise UserError(f'ask: pictures first, then the question in quotes; the last argument was "{last}"')
    if not question.strip():
        raise UserError("ask: the question is empty")
    images = tuple(probe(Path(picture)) for picture in pictures)
    return Sample(id="ask", source="ask", question=question, images=images)


def _open_search(folder: Path | None) -> SearchServices:
    if folder is None:
        return SearchServices()
    from vlagent.search.open import open_search

    return open_search(folder, published=False)


def _tool_names(args: argparse.Namespace, search: SearchServices) -> tuple[str, ...]:
    if args.tools is not None:
        return tuple(name.strip() for name in args.tools.split(",") if name.strip())
    found = {"text_search": search.text, "image_search": search.images}
    return ("image_crop", *(name for name, service in found.items() if service is not None))


def config_of(args: argparse.Namespace, tools: tuple[str, ...]) -> AgentConfig:
    """The settings that a checkpoint brings, else those of preset `paper`; what was given wins."""
    settings = settings_of(args.model, args.workflow or "agent")
    given: dict[str, Any] = {
        "workflow": args.workflow,
        "dialect": args.dialect,
        "max_turns": args.max_turns,
        "time_limit_s": args.time_limit,
        "prompts": load_prompts(args.prompts) if args.prompts else None,
    }
    if args.temperature is not None:
        given["sampling"] = settings.get("sampling", {}) | {"temperature": args.temperature}
    known = {name: value for name, value in given.items() if value is not None}
    return preset("paper", **({"warn_last_turn": True} | settings | known | {"tools": tools}))


def _rag_tools(config: AgentConfig, search: SearchServices) -> dict[str, Tool]:
    if config.workflow == "direct":
        return {}
    if search.text is None:
        raise UserError("--workflow rag: there is no text index; give one with --search (vlagent index text makes it)")
    return make_tools(["text_search", *(["image_search"] if search.images else [])], search=search)


def new_run_folder(given: Path | None) -> Path:
    """An empty folder for this run."""
    if given is None:
        given = Path("runs") / f"ask-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    if given.exists() and (not given.is_dir() or any(given.iterdir())):
        raise UserError(f"--run {given}: this is not an empty folder; choose another one")
    try:
        (given / "images").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--run {given}: cannot be made ({error.strerror})") from None
    return given


def _resolved(args: argparse.Namespace, config: AgentConfig, model: str) -> dict[str, Any]:
    return {
        "verb": "ask",
        "model": model,
        "base_url": args.base_url,
        "search": str(args.search) if args.search else None,
        "offline": args.offline,
        "confirm": args.confirm,
        "agent": config.model_dump(mode="json"),
    }


async def _play(asked: Asked) -> None:
    try:
        await run_agent(asked.agent, asked.sample)
    finally:
        asked.live.pause()
        await close_model(asked.agent.model)
        await asked.agent.search.aclose()


def finish(asked: Asked, *, as_json: bool) -> int:
    """Keep what happened, show the answer, and say how it ended."""
    trajectory = asked.ended or Trajectory(sample_id=asked.sample.id, stop=StopReason.CANCELLED)
    write_trajectory(asked.run, trajectory)
    page = write_report(asked.run)
    if as_json:
        print(to_json(summary_of(trajectory, asked.run)))
    elif trajectory.answer is not None:
        _print_answer(trajectory, page)
    if trajectory.stop is not StopReason.ANSWERED:
        why = f" ({one_line(trajectory.stop_detail)})" if trajectory.stop_detail else ""
        print(f"vlagent: no answer: {trajectory.stop}{why}; the run is in {asked.run}", file=sys.stderr)
    return EXIT.get(trajectory.stop, 4)


def _print_answer(trajectory: Trajectory, page: Path) -> None:
    console = console_for(sys.stdout)
    console.print(Text(clean(trajectory.answer or ""), style="bold green"))
    if trajectory.sources:
        console.print(Text("\nSources", style="bold"))
    for number, source in enumerate(trajectory.sources, 1):
        console.print(Text(f"  {number}. {describe(source)}"))
    console.print(Text(f"\nEvery step: {page}", style="dim"))


def summary_of(trajectory: Trajectory, run: Path) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "answer": trajectory.answer,
        "sources": [source.model_dump() for source in trajectory.sources],
        "stop": str(trajectory.stop),
        "turns": [_turn_of(turn) for turn in trajectory.turns],
        "usage": trajectory.usage.model_dump(),
        "run": str(run),
    }


def _turn_of(turn: Turn) -> dict[str, Any]:
    seen = turn.observation
    return {
        "think": turn.think,
        "call": {"name": turn.call.name, "arguments": turn.call.arguments} if turn.call else None,
        "repairs": list(turn.repairs),
        "observation": {
            "text": seen.text,
            "images": [image.model_dump() for image in seen.images],
            "fault": str(seen.fault) if seen.fault else None,
        }
        if seen
        else None,
    }
