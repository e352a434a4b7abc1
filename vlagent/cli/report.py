"""`vlagent report RUN`: write the page of a run and say where it is."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlagent.report.page import write_report

HELP = "write the page of a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `report`."""
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of an evaluation or of `ask`")


def run(args: argparse.Namespace) -> int:
    """Write RUN/report.html."""
    print(write_report(args.run).resolve())
    return 0
