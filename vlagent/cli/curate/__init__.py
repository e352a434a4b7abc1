"""`vlagent curate VERB`: make data. One verb a file, with `HELP`-line here, `add_arguments(parser)` and `run(args)`.

Heavy things are imported by the verb that runs, not by its file.
"""

from __future__ import annotations

import argparse
import importlib

HELP = "make data: mine, synthesise, verify, build sets and benchmarks"
VERBS = {
    "mine": "measure how often a model is right, and keep the questions that it fails",
    "synthesise": "let a strong model play the hard questions, and keep the best episodes",
    "verify": "check episodes, reject the bad ones with reasons, drop duplicates and overlap",
    "build": "build a set for reinforcement learning in the published manifest form",
    "export": "write episodes for other trainers, with a data card",
    "bench": "build a benchmark: collect, filter, annotate, check, difficulty, publish",
}
"""Verb -> its line in --help; the module is `vlagent.cli.curate.<verb>`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs below `curate`."""
    verbs = parser.add_subparsers(dest="curate_verb", metavar="VERB", required=True, help=", ".join(VERBS))
    for name, line in VERBS.items():
        module = importlib.import_module(f"vlagent.cli.curate.{name}")
        sub = verbs.add_parser(name, help=line, description=line)
        module.add_arguments(sub)
        sub.set_defaults(run_curate=module.run)


def run(args: argparse.Namespace) -> int:
    """Run one of them."""
    code: int = args.run_curate(args)
    return code
