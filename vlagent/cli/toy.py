"""`vlagent toy make DIR`: draw a small world in which every tool is needed, as files in the published formats."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from vlagent.cli import toy_demos
from vlagent.errors import UserError

HELP = "make the toy world"
SPLITS = ("train", "val", "test", "test_open")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verb has two actions, `make` and `demos`."""
    about = "make: write a toy world, or finish one that was begun; demos: play its oracle into a run folder"
    parser.add_argument("action", choices=["make", "demos"], help=about)
    parser.add_argument("folder", type=Path, metavar="WORLD")
    toy_demos.add_arguments(parser)
    parser.add_argument("--seed", type=int, default=0, help="decides everything that is drawn (default 0)")
    parser.add_argument(
        "--level", type=int, default=2, help="1: one sign; 2: three, named by colour (default); 3: small, spelled"
    )
    parser.add_argument(
        "--per-kind",
        action="append",
        default=[],
        metavar="[SPLIT=]N",
        help="questions of each of the five kinds, in every split or in one (default 100)",
    )
    parser.add_argument("--splits", default=",".join(SPLITS), help="which to make, with commas (default: all)")
    parser.add_argument("--canvas", type=int, default=640, metavar="PX", help="pixels a side of a scene (default 640)")
    parser.add_argument(
        "--short-prompt", action="store_true", help="put a system prompt for tiny models into the manifest"
    )


def run(args: argparse.Namespace) -> int:
    """Write the world, or demonstrations of one; progress goes to stderr, guess levels or the tally to stdout."""
    if args.action == "demos":
        return toy_demos.run(args)
    from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world

    config = WorldConfig(
        seed=args.seed,
        level=args.level,
        per_kind=counts(args.per_kind, args.splits),
        canvas=args.canvas,
        system_prompt=SYSTEM_PROMPT if args.short_prompt else None,
    )
    card = make_world(args.folder, config, _progress if sys.stderr.isatty() else None)
    print(f"toy world, level {config.level}, seed {config.seed}: {args.folder}")
    for name, split in card.splits.items():
        levels = "  ".join(f"{kind} {level:.1%}" for kind, level in split.guess_levels.items())
        print(f"  {name}: {split.rows} questions, {split.passages} passages, {split.pictures} pictures")
        print(f"    guess level: {levels}")
    return 0


def counts(words: list[str], splits: str) -> dict[str, int]:
    """`["100", "train=400"]` and the wanted splits as questions of each kind by split. Raises `UserError`."""
    wanted = [name for name in splits.split(",") if name]
    default, own = 100, dict[str, int]()
    for word in words:
        name, _, number = word.rpartition("=")
        if not number.isdecimal():
            raise UserError(f"--per-kind {word}: write a number, or SPLIT=NUMBER")
        if name:
            own[name] = int(number)
        else:
            default = int(number)
    unknown = sorted(set(own) - set(wanted))
    if unknown:
        raise UserError(f"--per-kind {unknown[0]}=...: not among --splits {splits}")
    return {name: own.get(name, default) for name in wanted}


def _progress(what: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\r{what} {done}/{total}   ", end=end, file=sys.stderr, flush=True)
