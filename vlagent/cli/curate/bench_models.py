"""The models behind `curate bench check` and `curate bench difficulty`: options, players, quotes."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.agent.config import AgentConfig
    from vlagent.bench.config import EvalConfig
    from vlagent.curate.bench.folder import Bench
    from vlagent.curate.bench.play import Player
    from vlagent.search.base import SearchServices

What = Literal["blind", "no_tools", "difficulty"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which model answers, who marks, and how."""
    from vlagent.cli.judges import prices

    parser.add_argument("--model", help="name that the endpoint knows it by; shipped:NAME; local:FOLDER")
    parser.add_argument("--base-url", help="OpenAI-compatible endpoint")
    parser.add_argument("--judge-model", help="marks what no rule accepts; `matcher` is the local one (default: rules)")
    parser.add_argument("--judge-base-url", help="its endpoint (LLM_JUDGE_URL)")
    parser.add_argument("--dialect", default="default", help="wire form (default)")
    parser.add_argument("--temperature", type=float, default=1.0, help="several answers must be able to differ (1.0)")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="answers at one time (8)")
    parser.add_argument("--attempts", type=int, default=5, metavar="N", help="tries of one call (5)")
    parser.add_argument("--price", type=prices, metavar="IN,OUT", help="US dollars for a million tokens")
    parser.add_argument("--dry-run", action="store_true", help="print calls, tokens and cost; ask nothing")


def player(args: argparse.Namespace, bench: Bench, what: What) -> Player:
    """A model for one purpose, with its tools and its judges. Raises `UserError`."""
    from vlagent.agent.loop import Agent
    from vlagent.cli.judges import open_judges
    from vlagent.cli.models import open_model
    from vlagent.curate.bench.play import Player
    from vlagent.tools.registry import make_tools

    if args.concurrency < 1 or args.attempts < 1:
        raise UserError(f"--concurrency {args.concurrency} --attempts {args.attempts}: at least 1 each")
    search = _search(args, what)
    config = eval_config(args, bench, what, search)
    model = open_model(args.model, args.base_url, dialect=args.dialect, **_options(config))
    config = config.model_copy(update={"model": args.model or model.name})
    names = config.agent.tools if what == "difficulty" else ()
    agent = Agent(model=model, config=config.agent, tools=make_tools(names, search=search), search=search)
    folder = bench.folder / "plays"
    return Player(agent, open_judges(config, folder), args.concurrency)


def _search(args: argparse.Namespace, what: What) -> SearchServices:
    from vlagent.search.base import SearchServices
    from vlagent.search.open import open_search

    folder = getattr(args, "search", None) if what == "difficulty" else None
    return open_search(Path(folder), published=False) if folder else SearchServices()


def _options(config: EvalConfig) -> dict[str, Any]:
    prices = config.prices
    return {
        "attempts": config.attempts,
        "usd_per_million_prompt_tokens": prices.prompt,
        "usd_per_million_completion_tokens": prices.completion,
    }


def eval_config(args: argparse.Namespace, bench: Bench, what: What, search: SearchServices) -> EvalConfig:
    """The same settings as an evaluation has, for prices, judges and estimates."""
    from vlagent.bench.config import EvalConfig, Prices

    prompt, completion = args.price or (0.0, 0.0)
    return EvalConfig(
        target=str(bench.folder),
        model=args.model,
        base_url=args.base_url,
        attempts=args.attempts,
        agent=_agent(args, what, search),
        k=bench.config.k if what == "difficulty" else bench.config.tries,
        judge_model=args.judge_model,
        judge_base_url=_judge_url(args),
        concurrency=args.concurrency,
        prices=Prices(prompt=prompt, completion=completion),
    )


def _judge_url(args: argparse.Namespace) -> str | None:
    from vlagent.cli.judges import judge_url

    return (judge_url(args) or args.base_url) if args.judge_model else None


def _agent(args: argparse.Namespace, what: What, search: SearchServices) -> AgentConfig:
    from vlagent.agent.config import AgentConfig
    from vlagent.config import make_config

    found = {"text_search": search.text, "image_search": search.images}
    tools = ("image_crop", *(name for name, service in found.items() if service is not None))
    given = {
        "workflow": "agent" if what == "difficulty" else "direct",
        "dialect": args.dialect,
        "sampling": {"temperature": args.temperature},
        "tools": tools,
    }
    return make_config(AgentConfig, given)


async def close(player: Player | None) -> None:
    """Release connections."""
    if player is None:
        return
    from vlagent.cli.judges import close_judges
    from vlagent.cli.models import close_model

    await close_model(player.agent.model)
    await player.agent.search.aclose()
    await close_judges(player.judge)


def quote_checks(args: argparse.Namespace, bench: Bench) -> list[str]:
    """What the two rounds of answers would take."""
    if not (args.model or args.base_url):
        return ["no model is named: nothing would be asked of one"]
    return [_quote(args, bench, "blind"), _quote(args, bench, "no_tools")]


def quote_difficulty(args: argparse.Namespace, bench: Bench) -> str:
    """What measuring would take."""
    return _quote(args, bench, "difficulty")


def _quote(args: argparse.Namespace, bench: Bench, what: What) -> str:
    from vlagent.curate.bench.play import folder_of, left_in, samples_of
    from vlagent.curate.budget import quote_episodes

    asked = player(args, bench, what)
    asyncio.run(close(asked))  # nothing is asked of it
    config = eval_config(args, bench, what, asked.agent.search)
    items = [item for item in bench.items().values() if item.state == "done"]
    samples = list(samples_of(bench, items, with_picture=what != "blind").values())
    done = len(samples) * config.k - left_in(folder_of(bench, what, asked), samples, config.k)
    return quote_episodes(config, samples, done=done, what=what).line()
