"""`vlagent report RUN`: write the page of a run and say where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.report.ablation import is_ablation, write_ablation_report
from vlagent.report.page import write_report
from vlagent.report.training import is_training, write_training_report

HELP = "write the page of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    parser.add_argument(
        "run",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folder of an evaluation, of `ask`, of a training run, of an ablation",
    )
    parser.add_argument("--table", choices=("markdown", "csv", "latex"), help="print the scores instead of a page")
    parser.add_argument("--published", action="store_true", help="with --table: the published scores beside ours")
    parser.add_argument("--bad-cases", type=Path, metavar="FILE.csv", help="write what is not right as a table")


def run(args: argparse.Namespace) -> int:
    """Write RUN/report.html (or report/index.html); for the results of an ablation page.html and table.md."""
    if args.published and not args.table:
        raise UserError("--published: it needs --table markdown, csv or latex")
    if args.table:
        from vlagent.bench.results import FORMATS, results

        print(FORMATS[args.table](results(args.run, published=args.published)), end="")
        return 0
    if args.bad_cases:
        from vlagent.bench.bad_cases import bad_cases

        if len(args.run) > 1:
            raise UserError("--bad-cases: one run at a time")
        write_atomic(args.bad_cases, bad_cases(args.run[0]))
        print(args.bad_cases.resolve())
        return 0
    for folder in args.run:
        print(_write_page(folder).resolve())
    return 0


def _write_page(folder: Path) -> Path:
    if is_ablation(folder):
        return write_ablation_report(folder).page
    return (write_training_report if is_training(folder) else write_report)(folder)
