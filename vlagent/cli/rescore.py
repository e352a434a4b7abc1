"""`vlagent rescore RUN`: score the episodes of a run again, without its model."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from vlagent.bench.agreement import Agreement
from vlagent.bench.config import read_config
from vlagent.bench.rescore import Rescored, copy_run, rescore
from vlagent.bench.table import summary_table
from vlagent.cli import judges
from vlagent.cli.eval_options import checked
from vlagent.cli.offline import check_endpoint, forbid_network
from vlagent.cli.terminal import console_for, warn
from vlagent.errors import UserError
from vlagent.rewards.matcher import NAME as MATCHER
from vlagent.rewards.opinions import Marker

HELP = "score the episodes of a run again, without its model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `rescore`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of an evaluation")
    parser.add_argument("--to", type=Path, metavar="DIR", help="a new folder (default: RUN itself; its rows are kept)")
    parser.add_argument("--rules", action="store_true", help="by rules alone, whatever judge the run had")
    judges.add_arguments(parser)
    parser.add_argument("--attempts", type=int, metavar="N", help="tries of one call (default: the run's)")
    parser.add_argument("--offline", action="store_true", help="forbid every connection beyond this machine")


def run(args: argparse.Namespace) -> int:
    """Score and print; 3 where judges failed on more than the run's share, 130 on Ctrl-C."""
    if args.rules and args.judge_model:
        raise UserError("--rules: rules alone have no judge; leave --judge-model out")
    before = read_config(args.run)
    scoring: dict[str, Any] = {"judge_model": None} if args.rules else judges.values(args, before.base_url, before)
    if args.attempts is not None:
        scoring["attempts"] = args.attempts
    if args.judge_price:
        priced = {"judge_prompt": args.judge_price[0], "judge_completion": args.judge_price[1]}
        scoring["prices"] = before.prices.model_dump() | priced
    config = checked(before.model_dump(mode="json") | scoring)
    if args.offline:
        for name, url in zip(config.judges, judges.urls_of(config), strict=True):
            if name != MATCHER:
                check_endpoint(url, name)
        forbid_network()
    judges.urls_of(config)
    folder = args.to or args.run
    if args.to:
        copy_run(args.run, args.to)
    marker = judges.open_judges(config, folder)
    result = asyncio.run(_rescore(folder, marker, scoring))
    _print(result, folder)
    failed_share = result.judge_failed / result.episodes
    return 3 if failed_share > config.max_failed_share else 0


async def _rescore(folder: Path, marker: Marker | None, scoring: dict[str, Any]) -> Rescored:
    try:
        return await rescore(folder, marker, scoring)
    finally:
        await judges.close_judges(marker)


def _print(result: Rescored, folder: Path) -> None:
    console = console_for(sys.stdout)
    console.print(summary_table(result.summary))
    if result.summary.judging.agreement:
        console.print(agreement_table(result.summary.judging.agreement))
    warn(f"{result.changed} of {result.episodes} episodes have another outcome now")
    if result.judge_failed:
        warn(f"{result.judge_failed} could not be judged; the same command asks for these again")
    print(f"{folder / 'summary.json'} (vlagent report {folder} makes the page)", file=sys.stderr)


def agreement_table(found: Agreement) -> Table:
    """Each pair of judges on the answers that both marked."""
    alpha = "undefined" if found.alpha is None else f"{found.alpha:.3f}"
    title = f"Agreement on {found.answers} answers, Krippendorff's alpha {alpha}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("judges", overflow="fold")
    for head in ("answers", "agree", "kappa", "both yes", "first only", "second only", "both no"):
        # a narrow terminal folds names and heads, never a number
        table.add_column(head, justify="right", min_width={"agree": 7, "kappa": 9}.get(head, 6))
    for pair in found.pairs:
        share = "none" if pair.share is None else f"{100 * pair.share:.1f} %"
        kappa = "undefined" if pair.kappa is None else f"{pair.kappa:.3f}"
        cells = (pair.answers, share, kappa, pair.both_yes, pair.only_first_yes, pair.only_second_yes, pair.both_no)
        table.add_row(f"{pair.first}, {pair.second}", *map(str, cells))
    return table
