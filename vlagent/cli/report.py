"""`vlagent report RUN`: write the page of a run and say where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlagent.report.ablation import is_ablation, write_ablation_report
from vlagent.report.page import write_report
from vlagent.report.training import is_training, write_training_report

HELP = "write the page of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    parser.add_argument(
        "run", type=Path, metavar="RUN", help="folder of an evaluation, of `ask`, of a training run, of an ablation"
    )


def run(args: argparse.Namespace) -> int:
    """Write RUN/report.html; for the results of an ablation page.html and table.md."""
    if is_ablation(args.run):
        print(write_ablation_report(args.run).page.resolve())
        return 0
    write = write_training_report if is_training(args.run) else write_report
    print(write(args.run).resolve())
    return 0
