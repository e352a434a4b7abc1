"""`vlagent stage0 CONFIG`: teach a tiny model perception and copying, in minutes on two cores.

The tower and the decoder learn side by side in two processes, then together. Killed at any moment, the same command
goes on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vlagent.config import load_config

HELP = "pre-train a tiny model: perception and copying"
PARTS = ("pictures", "vision", "decoder", "join")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A configuration and where to put the run."""
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("overrides", nargs="*", metavar="key.path=value")
    parser.add_argument("--run", type=Path, default=Path("runs/stage0"), help="folder of the run (default runs/stage0)")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved configuration and stop")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Run all parts, or go on with them; prints the folder of the finished model."""
    from vlagent.train.stage0.config import Stage0Config

    config = load_config(Stage0Config, args.config, args.overrides)
    if args.dry_run:
        print(config.model_dump_json(indent=2))
        return 0
    if args.part:
        from vlagent.cli.stage0.launch import end_with_parent
        from vlagent.cli.stage0.parts import run_part

        end_with_parent()
        run_part(args.part, config, args.run, args.rank)
        return 0
    from vlagent.cli.stage0.launch import launch

    launch(config, args.run, [str(args.config), *args.overrides])
    print(args.run / "trained")
    print(f"vlagent: curves are in {args.run}/*/metrics.jsonl", file=sys.stderr)
    return 0
