"""`vlagent sft CONFIG [key.path=value ...]`: supervised fine-tuning on the episodes of run folders."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from vlagent.config import load_config, make_config
from vlagent.errors import UserError
from vlagent.train.config import SftConfig
from vlagent.train.folder import check_same_run, read_sft_config

HELP = "fine-tune a model on episodes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A configuration and what to change in it."""
    parser.add_argument("words", nargs="*", metavar="CONFIG.toml | key.path=value", help="one file, then overrides")
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with a run, with its own configuration")
    parser.add_argument("--dry-run", action="store_true", help="print the settings and the memory by part, then leave")


def run(args: argparse.Namespace) -> int:
    """Train; 0 done, 130 stopped by Ctrl-C with a checkpoint."""
    config = _config(args)
    _need_torch()
    if args.dry_run:
        return _dry_run(config)
    from vlagent.train.sft import train_sft

    summary = train_sft(config, resume=args.resume is not None)
    if summary.ended == "stopped":
        print(f"vlagent: stopped after step {summary.steps}", file=sys.stderr)
        print(f"vlagent: go on with: vlagent sft --resume {summary.run}", file=sys.stderr)
        return 130
    print(f"{summary.model}")
    return 0


def _config(args: argparse.Namespace) -> SftConfig:
    """The given file, or the run's own with changes that do not decide results."""
    files = [word for word in args.words if "=" not in word]
    overrides = [word for word in args.words if "=" in word]
    if len(files) > 1:
        raise UserError(f"{files[1]!r}: one configuration file is expected, then key.path=value")
    if args.resume is None:
        if not files:
            raise UserError("sft: which configuration? give a TOML file, or --resume RUN")
        return load_config(SftConfig, Path(files[0]), overrides)
    before = read_sft_config(args.resume)
    table = before.model_dump(mode="json")
    now = load_config(SftConfig, Path(files[0]), overrides) if files else make_config(SftConfig, table, overrides)
    now = now.model_copy(update={"run": str(args.resume)})
    check_same_run(before, now, args.resume)
    return now


def _dry_run(config: SftConfig) -> int:
    from vlagent.train.plan import plan_sft, plan_table

    print(config.model_dump_json(indent=1, exclude_none=True))
    print(plan_table(plan_sft(config)))
    return 0


def _need_torch() -> None:
    missing = [name for name in ("torch", "transformers", "accelerate", "peft") if find_spec(name) is None]
    if missing:
        raise UserError(f"sft needs {missing[0]}: pip install 'vlagent[train]'")
