"""`vlagent report RUN`: write the page of a run and say where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlagent.report.page import write_report
from vlagent.report.training import is_training, write_training_report

HELP = "write the page of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of an evaluation, of `ask`, or of a training run")


def run(args: argparse.Namespace) -> int:
    """Write RUN/report.html."""
    write = write_training_report if is_training(args.run) else write_report
    print(write(args.run).resolve())
    return 0
