"""`vlagent rl CONFIG [key.path=value ...]`: reinforcement learning on questions, with the tools in the loop."""

from __future__ import annotations

import argparse

from vlagent.cli import sft
from vlagent.cli.training import need_torch, report, show, training_config
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
        from vlagent.train.plan import plan_rl, plan_table

        return show(config, lambda: plan_table(plan_rl(config)))
    from vlagent.train.rl.run import train_rl

    return report(train_rl(config, resume=args.resume is not None))
