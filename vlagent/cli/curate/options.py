"""What the verbs that play episodes share: the options of `eval`, paid answers that are kept, a quote."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlagent.chat.base import ChatModel
from vlagent.cli import eval_options
from vlagent.cli.shipped import is_local
from vlagent.cli.terminal import warn
from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.bench.config import EvalConfig
    from vlagent.cli.eval import Prepared
    from vlagent.curate.budget import Quote
    from vlagent.types import Sample


def add_arguments(parser: argparse.ArgumentParser, epilog: str) -> None:
    """The options of `eval`, with other words at the end."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = epilog
    eval_options.add_arguments(parser)


def check_at_least(option: str, value: int | None, least: int) -> None:
    """Raises `UserError` for a number that is too small."""
    if value is not None and value < least:
        raise UserError(f"{option} {value}: at least {least}")


def set_defaults(args: argparse.Namespace, k: int) -> None:
    """Rollouts, and a temperature at which they differ. A resumed run keeps its own."""
    if args.resume:
        return
    if args.run is None:
        raise UserError(f"curate {args.curate_verb}: say where the results go with --run DIR")
    args.k = k if args.k is None else args.k
    if args.temperature is None and args.preset is None and not is_local(args.model):
        args.temperature = 1.0


def prepare(args: argparse.Namespace, calls: str) -> Prepared:
    """As `eval` does, with the answers of a paid model kept in the run folder."""
    from vlagent.cli import eval as evaluation
    from vlagent.cli.offline import check_endpoint, forbid_network

    if args.offline and not args.replay:
        check_endpoint(args.base_url, args.model)
    if args.offline or args.replay:
        forbid_network()
    prepared = evaluation.prepare(args)
    if not args.dry_run or (prepared.run / calls).exists():
        prepared.agent.model = paid(prepared.agent.model, prepared.config.model, prepared.run / calls)
    return prepared


def paid(model: ChatModel, name: str | None, path: Path) -> ChatModel:
    """The model with its answers kept; one that runs in this process costs nothing and keeps its token ids."""
    from vlagent.curate.budget import Paid

    return model if is_local(name) or (name or "").startswith("toy:") else Paid(model, path)


def quoted(prepared: Prepared, what: str, like: Path | None = None) -> Quote:
    """What is left of the episodes, in calls, tokens and money."""
    from vlagent.curate.budget import quote_episodes

    done = done_in(prepared.run, prepared.config, prepared.samples)
    return quote_episodes(prepared.config, prepared.samples, done=done, like=like, what=what)


def done_in(run: Path, config: EvalConfig, samples: Sequence[Sample]) -> int:
    """Episodes of a run folder that are over."""
    from vlagent.bench.runs import read_book

    book = read_book(run, samples, config.rollouts_of)
    return len(book.planned) - len(book.to_play())


def play(prepared: Prepared) -> int:
    """Evaluate with the progress bar of `eval`; its exit code."""
    from vlagent.cli import eval as evaluation

    result = asyncio.run(evaluation.evaluate_prepared(prepared, ""))
    if result.ended != "complete":
        warn(
            f"ended: {result.ended}; the same command goes on"
            + (f" ({result.last_failure})" if result.last_failure else "")
        )
    return evaluation.EXIT[result.ended]


def say_paid(*runs: Prepared) -> None:
    """What the answers have cost, those of earlier starts included."""
    from vlagent.curate.budget import Paid

    for each in runs:
        model = each.agent.model
        if isinstance(model, Paid):
            usage = model.spent
            tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens"
            warn(f"{model.name}: {len(model):,} answers ({model.asked:,} asked now), {tokens}, ${usage.cost_usd:,.2f}")
