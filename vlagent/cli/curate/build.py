"""`vlagent curate build DATA... --out DIR`: a set for reinforcement learning, in the published manifest form."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from vlagent.cli.curate.export import add_licences, licences
from vlagent.cli.shares import shares
from vlagent.errors import UserError, first_problem

EPILOG = """examples:
  vlagent curate build data/raw/train.json:fvqa_train,deepeyes_4k,visual_probe --without runs/verified --out data/rl
  vlagent curate build data/raw/train.json --pass-rates runs/mined --low 0.1 --high 0.9 --out data/rl
  vlagent curate build data/raw/train.json --mix fvqa_train=1,visual_probe=1 --size 4000 --out data/hybrid

Duplicates are dropped (the first stays); pictures are compared by what they show, so a re-encoded copy is the same."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What goes in, and what does not."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("data", nargs="+", metavar="DATA", help="manifests, entries of one, or files of rows")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="empty folder to write")
    parser.add_argument("--name", default="rl", help="of the set, on its card")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="RUN|DATA|SUITE",
        help="leave out its questions (repeatable)",
    )
    parser.add_argument(
        "--same",
        choices=("question", "picture"),
        default="question",
        help="what counts as the same: one question about one picture (default), or any question about it",
    )
    parser.add_argument("--pass-rates", type=Path, metavar="RUN|FILE", help="measured pass rates (vlagent curate mine)")
    parser.add_argument("--low", type=float, default=0.0, metavar="RATE", help="lowest pass rate (default: 0)")
    parser.add_argument("--high", type=float, default=1.0, metavar="RATE", help="highest pass rate (default: 1)")
    parser.add_argument("--keep-unmeasured", action="store_true", help="keep questions without a pass rate")
    parser.add_argument("--where", action="append", default=[], metavar="COLUMN=VALUE,...", help="only such questions")
    parser.add_argument(
        "--mix", default="", metavar="SET=SHARE,...", help="shares of data sets (default: all there is)"
    )
    parser.add_argument("--size", type=int, metavar="N", help="questions (default: as many as there are)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw for --mix and --size")
    parser.add_argument("--quick", action="store_true", help="compare pictures by their bytes only")
    parser.add_argument("--copy-pictures", action="store_true", help="copy the pictures, so that the set can be moved")
    parser.add_argument("--dry-run", action="store_true", help="print what the set would hold; write nothing")
    add_licences(parser)


def run(args: argparse.Namespace) -> int:
    """Write it, and print what is in it."""
    from vlagent.bench.pass_rates import pass_rates
    from vlagent.curate.build import BuildOptions, build, choose
    from vlagent.curate.card import card_of

    table = {
        "data": args.data,
        "without": args.without,
        "same": args.same,
        "low": args.low,
        "high": args.high,
        "unmeasured": "keep" if args.keep_unmeasured else "drop",
        "where": _where(args.where),
        "shares": shares(args.mix, "--mix", "SET=SHARE, such as fvqa_train=0.5"),
        "size": args.size,
        "seed": args.seed,
        "decode": not args.quick,
        "copy_pictures": args.copy_pictures,
        "name": args.name,
        "licences": licences(args.licence),
    }
    try:
        options = BuildOptions.model_validate(table)
    except ValidationError as error:
        first = first_problem(error)
        named = f"{first.option} {first.given}" if first.key else "curate build"
        raise UserError(f"{named}: {first.said}") from None
    rates = pass_rates(args.pass_rates) if args.pass_rates else None
    if args.dry_run:
        built = choose(options, rates)
        card = card_of([(sample, None, None) for sample in built.samples], options.name, options.licences, rates)
        card = card.model_copy(update={"left_out": dict(built.left_out)})
    else:
        card = build(args.out, options, rates)
    print(f"{card.items} questions: " + ", ".join(f"{source} {count}" for source, count in card.sources.items()))
    for reason, count in card.left_out.items():
        print(f"  left out, {reason}: {count}")
    if not args.dry_run:
        print(args.out / "manifest.json")
    return 0


def _where(words: list[str]) -> dict[str, tuple[str, ...]]:
    table = {}
    for word in words:
        name, _, values = word.partition("=")
        if not name or not values:
            raise UserError(f"--where {word}: write it as COLUMN=VALUE,VALUE")
        table[name] = tuple(values.split(","))
    return table
