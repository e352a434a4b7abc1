"""Judges by the names that a user types, for `eval` and `rescore`."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from vlagent.bench.config import EvalConfig
from vlagent.chat.base import ChatModel
from vlagent.cli import taping
from vlagent.cli.models import close_model, open_model
from vlagent.errors import UserError
from vlagent.rewards.judge import Judge
from vlagent.rewards.matcher import NAME as MATCHER
from vlagent.rewards.matcher import Matcher
from vlagent.rewards.opinions import OPINIONS, Marker
from vlagent.rewards.panel import Decides, Panel

if TYPE_CHECKING:
    from vlagent.search.cache.tape import Tape


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is not given stays None."""
    parser.add_argument(
        "--judge-model",
        metavar="NAME[,NAME]",
        help=f"judge of open answers; `{MATCHER}` needs no model; several mark each answer (default: rules alone)",
    )
    parser.add_argument(
        "--judge-base-url", metavar="URL[,URL]", help="its endpoint (LLM_JUDGE_URL; default: that of --base-url)"
    )
    parser.add_argument(
        "--judge-decides", choices=get_args(Decides), help="of several judges (default: first; the rest are recorded)"
    )
    parser.add_argument("--judge-cache", metavar="FILE", help="verdicts that runs share")
    parser.add_argument("--judge-text-only", action="store_true", default=None, help="show the judge no pictures")
    parser.add_argument(
        "--judge-price", type=prices, metavar="IN,OUT", help="US dollars for a million tokens of the judge"
    )


def values(args: argparse.Namespace, base_url: str | None, before: EvalConfig | None = None) -> dict[str, Any]:
    """Those fields of `EvalConfig` that were given; the judges may be those of `before`.

    `UserError` where there is none for what is said of it.
    """
    names = ("judge_model", "judge_decides", "judge_cache", "judge_base_url")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.judge_text_only:
        given["judge_with_images"] = False
    if not args.judge_model and not (before and before.judges):
        _refuse_without_judge(args)
    if given.get("judge_model"):
        given["judge_base_url"] = judge_url(args) or base_url
    return given


def _refuse_without_judge(args: argparse.Namespace) -> None:
    for name in ("judge_base_url", "judge_decides", "judge_cache", "judge_text_only", "judge_price"):
        if getattr(args, name) is not None:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option}: there is no judge that it could be for; name one with --judge-model")


def judge_url(args: argparse.Namespace) -> str | None:
    """The judge's endpoint as given, or as the environment names it."""
    return args.judge_base_url or os.environ.get("LLM_JUDGE_URL")


def prices(text: str) -> tuple[float, float]:
    """`IN,OUT` in US dollars for a million tokens."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write it as IN,OUT, such as 2.5,10") from None
    if not (first >= 0 and second >= 0):
        raise argparse.ArgumentTypeError(f"{text!r}: a price is not negative")
    return first, second


def urls_of(config: EvalConfig) -> list[str | None]:
    """The endpoint of each judge. `UserError` where their numbers do not fit."""
    named = [url.strip() for url in (config.judge_base_url or "").split(",") if url.strip()]
    asked = [name for name in config.judges if name != MATCHER]
    if len(named) not in (0, 1, len(asked)):
        raise UserError(f"--judge-base-url: {len(named)} endpoints for {len(asked)} judges; give one, or one for each")
    endpoints = iter(named if len(named) > 1 else named * len(asked))
    return [None if name == MATCHER else next(endpoints, None) for name in config.judges]


def open_judges(config: EvalConfig, folder: Path, tape: Tape | None = None) -> Marker | None:
    """What marks open answers in a run; None where rules alone do."""
    names = config.judges
    if not names:
        return None
    if len(set(names)) < len(names):
        raise UserError(f"--judge-model {config.judge_model}: a judge is named twice")
    markers = [_open(name, url, config, folder, tape) for name, url in zip(names, urls_of(config), strict=True)]
    return markers[0] if len(markers) == 1 else Panel(markers, config.judge_decides)


def _open(name: str, url: str | None, config: EvalConfig, folder: Path, tape: Tape | None) -> Marker:
    if name == MATCHER:
        return Matcher(log=folder / OPINIONS)
    model = taping.taped(tape, "judge", name, lambda: _model(name, url, config))
    cache = Path(config.judge_cache) if config.judge_cache else None
    return Judge(model, with_images=config.judge_with_images, cache=cache, log=folder / OPINIONS)


def _model(name: str, url: str | None, config: EvalConfig) -> ChatModel:
    return open_model(
        name,
        url,
        attempts=config.attempts,
        usd_per_million_prompt_tokens=config.prices.judge_prompt,
        usd_per_million_completion_tokens=config.prices.judge_completion,
    )


async def close_judges(judge: Marker | None) -> None:
    """Release the connections of all judges."""
    members: Sequence[Marker] = judge.judges if isinstance(judge, Panel) else [judge] if judge else []
    for member in members:
        if isinstance(member, Judge):
            await close_model(member.model)
