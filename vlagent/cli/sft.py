"""`vlagent sft CONFIG [key.path=value ...]`: supervised fine-tuning on the episodes of run folders."""

from __future__ import annotations

import argparse
from pathlib import Path

from vlagent.cli.training import need_torch, report, show, training_config
from vlagent.train.config import SftConfig
from vlagent.train.folder import FREE

HELP = "fine-tune a model on episodes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A configuration and what to change in it."""
    parser.add_argument("words", nargs="*", metavar="CONFIG.toml | key.path=value", help="one file, then overrides")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run, with its own configuration")
    parser.add_argument("--dry-run", action="store_true", help="print the settings and the memory by part, then leave")


def run(args: argparse.Namespace) -> int:
    """Train; 0 done, 130 stopped by Ctrl-C with a checkpoint."""
    config = training_config(SftConfig, args, "sft", FREE)
    need_torch("sft")
    if args.dry_run:
        from vlagent.train.plan import plan_sft, plan_table

        return show(config, lambda: plan_table(plan_sft(config)))
    from vlagent.train.sft import train_sft

    return report(train_sft(config, resume=args.resume is not None))
