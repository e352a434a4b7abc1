"""What the verbs that train have in common: one configuration file, overrides, and going on with a run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from vlagent.config import load_config, make_config
from vlagent.errors import UserError
from vlagent.train.folder import SftSummary, check_same_run, read_run_config
from vlagent.train.rl.folder import RlSummary

C = TypeVar("C", bound=BaseModel)


def training_config(kind: type[C], args: argparse.Namespace, verb: str, free: frozenset[str]) -> C:
    """The given file, or with --resume the run's own with changes that do not decide results."""
    files = [word for word in args.words if "=" not in word]
    overrides = [word for word in args.words if "=" in word]
    if len(files) > 1:
        raise UserError(f"{files[1]!r}: one configuration file is expected, then key.path=value")
    if args.resume is None:
        if not files:
            raise UserError(f"{verb}: which configuration? give a TOML file, or --resume RUN")
        return load_config(kind, Path(files[0]), overrides)
    before = read_run_config(args.resume, kind, verb)
    table = before.model_dump(mode="json")
    now = load_config(kind, Path(files[0]), overrides) if files else make_config(kind, table, overrides)
    now = now.model_copy(update={"run": str(args.resume)})
    check_same_run(before, now, args.resume, free)
    return now


def need_torch(verb: str, *more: str) -> None:
    """`UserError` where the extra [train] is not installed."""
    missing = [name for name in ("torch", "transformers", "accelerate", "peft", *more) if find_spec(name) is None]
    if missing:
        raise UserError(f"{verb} needs {missing[0]}: pip install 'vlagent[train]'")


def report(summary: SftSummary | RlSummary) -> int:
    """Say where the model is, or how to go on; the exit code."""
    if summary.ended == "stopped":
        print(f"vlagent: stopped after step {summary.steps}", file=sys.stderr)
        print(f"vlagent: go on with: vlagent {summary.verb} --resume {summary.run}", file=sys.stderr)
        return 130
    print(summary.model or summary.run)
    return 0


def show(config: BaseModel, table: Callable[[], str]) -> int:
    """What --dry-run prints: the settings, then the memory. The settings also where there is no model to estimate."""
    print(config.model_dump_json(indent=1, exclude_none=True))
    print(table())
    return 0
