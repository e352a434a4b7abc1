"""`vlagent plan CONFIG [key.path=value ...]`: the memory of a training run, from the model's config alone."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path

from vlagent.cli import rl, sft

HELP = "the memory that a training run needs, by part (an estimate)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of `sft` and `rl`; nothing is trained."""
    sft.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    args.dry_run = True
    return rl.run(args) if _is_rl(args) else sft.run(args)


def _is_rl(args: argparse.Namespace) -> bool:
    """Whether the configuration is one of `rl`: it has questions where one of `sft` has sources of episodes."""
    file = next((Path(word) for word in args.words if "=" not in word), None)
    if args.resume is not None:
        file = args.resume / "config.json"
    try:
        text = file.read_text(encoding="utf-8") if file is not None else ""
        return '"verb":"rl"' in text.replace(" ", "") if args.resume else "data" in tomllib.loads(text)
    except (OSError, ValueError):
        return False  # the verb below says what is wrong with the file
