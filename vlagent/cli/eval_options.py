"""The options of `eval`, and what they make of a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from vlagent.agent.config import PRESETS
from vlagent.bench.config import EvalConfig
from vlagent.bench.suites import SUITES
from vlagent.cli import judges, taping
from vlagent.cli.models import WORKFLOW_HELP, WORKFLOWS
from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.render.dialects import DIALECTS
from vlagent.render.prompts import load_prompts
from vlagent.render.sizing import LIMITS
from vlagent.tools.registry import TOOLS

AGENT_KEYS = ("workflow", "dialect", "max_turns", "time_limit_s", "top_k", "seed", "crop_source")
OWN_KEYS = (
    *("target", "data", "model", "base_url", "search", "k", "limit", "attempts"),
    *("concurrency", "model_limit", "max_failed_share"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `eval`; what is not given stays None, so that a resumed run keeps its own value."""
    suites = ", ".join(SUITES)
    parser.add_argument("target", nargs="?", help=f"manifest.json[:entry,...], rows, or SUITE[,SUITE...] of {suites}")
    parser.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA; see bench)")
    parser.add_argument("--run", type=Path, metavar="DIR", help="run folder; goes on with it if it holds a part")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run, with its own configuration")
    parser.add_argument("--dry-run", action="store_true", help="say what it would take, ask no model, write nothing")
    parser.add_argument("--like", type=Path, metavar="RUN", help="estimate by what an earlier run took")
    _add_model_arguments(parser)
    judges.add_arguments(parser)
    _add_agent_arguments(parser)
    _add_run_arguments(parser)
    parser.add_argument("--offline", action="store_true", help="forbid every connection beyond this machine")
    taping.add_arguments(parser)


def _add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", help="name that the endpoint knows it by; toy:oracle|random|direct; local:FOLDER; shipped:NAME"
    )
    parser.add_argument("--base-url", help="OpenAI-compatible endpoint, or an Azure one (default: OpenAI's own)")
    parser.add_argument("--attempts", type=int, metavar="N", help="tries of one call (default: 5)")
    parser.add_argument(
        "--price", type=judges.prices, metavar="IN,OUT", help="US dollars for a million tokens of the model"
    )


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


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--k", type=int, metavar="N", help="rollouts a question, Avg@k (default: each suite's, else 1)")
    parser.add_argument("--limit", type=int, metavar="N", help="first N questions of each data set")
    parser.add_argument("--concurrency", type=int, metavar="N", help="episodes at one time (default: 16)")
    parser.add_argument(
        "--fixed-pace", action="store_true", help="ask the model as often while it refuses (429) or slows down"
    )
    parser.add_argument("--model-limit", type=int, metavar="N", help="model calls at one time")
    parser.add_argument("--tool-limit", action="append", metavar="TOOL=N", help="calls of a tool at one time")
    parser.add_argument("--max-failed-share", type=float, metavar="X", help="stop past this share (default: 0.1)")
    parser.add_argument("--budget", type=float, metavar="USD", help="stop when model and judges have cost this")
    parser.add_argument("--max-minutes", type=float, metavar="N", help="stop after this time; --resume goes on")


def own_values(args: argparse.Namespace, before: EvalConfig | None = None) -> dict[str, Any]:
    """The fields of `EvalConfig` that were given, but for the agent's; the rest of a table is that of `before`."""
    given = {name: getattr(args, name) for name in OWN_KEYS if getattr(args, name) is not None}
    given |= judges.values(args, args.base_url, before)
    if args.tool_limit:
        given["tool_limits"] = dict(_tool_limit(text) for text in args.tool_limit)
    if args.fixed_pace:
        given["adaptive"] = False
    return given | _limits(args, before) | _prices(args, before)


def _limits(args: argparse.Namespace, before: EvalConfig | None) -> dict[str, Any]:
    given = {
        "budget_usd": args.budget,
        "time_s": 60 * args.max_minutes if args.max_minutes is not None else None,
    }
    known = before.limits.model_dump() if before else {}
    changed = {name: value for name, value in given.items() if value is not None}
    return {"limits": known | changed} if changed else {}


def _prices(args: argparse.Namespace, before: EvalConfig | None) -> dict[str, Any]:
    changed: dict[str, float] = {}
    if args.price:
        changed |= {"prompt": args.price[0], "completion": args.price[1]}
    if args.judge_price:
        changed |= {"judge_prompt": args.judge_price[0], "judge_completion": args.judge_price[1]}
    known = before.prices.model_dump() if before else {}
    return {"prices": known | changed} if changed else {}


def agent_values(args: argparse.Namespace, sampling: dict[str, Any] | None = None) -> dict[str, Any]:
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


def checked(table: dict[str, Any]) -> EvalConfig:
    """The configuration; every mistake is one line that names the key."""
    config = make_config(EvalConfig, table)
    if config.limits.budget_usd is not None and not any(config.prices.model_dump().values()):
        raise UserError("--budget: say what a million tokens cost with --price IN,OUT, and --judge-price")
    return config
