"""`vlagent plan CONFIG [key.path=value ...]`: the memory of a fine-tuning run, from the model's config alone."""

from __future__ import annotations

import argparse

from vlagent.cli import sft

HELP = "the memory that a fine-tuning run needs, by part (an estimate)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `sft`; nothing is trained."""
    sft.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    args.dry_run = True
    return sft.run(args)
