"""`vlagent rl CONFIG [key.path=value ...]`: reinforcement learning on questions, with the tools in the loop."""

from __future__ import annotations

import argparse
import sys

from vlagent.cli import sft
from vlagent.cli.training import need_torch, training_config
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.folder import FREE

HELP = "train a model by reinforcement learning"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A configuration and what to change in it, as for `sft`."""
    sft.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Train; 0 done, 3 too many failed services, 130 stopped by Ctrl-C; the last two with a checkpoint."""
    config = training_config(RlConfig, args, "rl", FREE)
    need_torch("rl", "trl", "datasets")
    if args.dry_run:
        return _dry_run(config)
    from vlagent.train.rl.run import train_rl

    summary = train_rl(config, resume=args.resume is not None)
    if summary.ended == "stopped":
        print(f"vlagent: stopped after step {summary.steps}", file=sys.stderr)
        print(f"vlagent: go on with: vlagent rl --resume {summary.run}", file=sys.stderr)
        return 130
    print(summary.model or summary.run)
    return 0


def _dry_run(config: RlConfig) -> int:
    from vlagent.train.plan import plan_rl, plan_table

    table = plan_table(plan_rl(config))
    print(config.model_dump_json(indent=1, exclude_none=True))
    print(table)
    return 0
