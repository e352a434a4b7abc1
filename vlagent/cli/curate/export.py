"""`vlagent curate export RUN... --out DIR`: episodes for other trainers, with a data card."""

from __future__ import annotations

import argparse
from pathlib import Path

from pydantic import ValidationError

from vlagent.errors import UserError, first_problem

FORMS = ("rows", "trl", "sharegpt", "datasets")
EPILOG = """examples:
  vlagent curate export runs/verified --out data/sft --name mars-sft
  vlagent curate export runs/verified runs/experts --out data/sft --forms trl,datasets --licence experts=cc-by-4.0

`rows` is a run folder for vlagent sft, `trl` and `datasets` are for TRL, `sharegpt` is for LLaMA-Factory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which episodes, and in which forms."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders with episodes")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="empty folder to write")
    parser.add_argument("--forms", default=",".join(FORMS), metavar="FORM,...", help=f"default: {','.join(FORMS)}")
    parser.add_argument("--name", default="episodes", help="of the set, on its card and in dataset_info.json")
    parser.add_argument("--all", action="store_true", help="wrong episodes too (default: only right ones)")
    parser.add_argument("--format-ok", action="store_true", help="only episodes in which every turn is in form")
    parser.add_argument("--max-turns", type=int, metavar="N", help="only episodes of at most N turns")
    parser.add_argument("--limit", type=int, metavar="N", help="first N episodes of each run")
    parser.add_argument("--dialect", help="write the turns in this dialect (default: as they were written)")
    parser.add_argument(
        "--pictures", choices=("view", "original"), default="view", help="size as the model saw them, or of the source"
    )
    parser.add_argument("--jpeg", action="store_true", help="pictures as JPEG (default: PNG, which loses nothing)")
    parser.add_argument("--pass-rates", type=Path, metavar="RUN|FILE", help="measured pass rates, for the card")
    add_licences(parser)


def add_licences(parser: argparse.ArgumentParser) -> None:
    """What a card says of licences."""
    parser.add_argument(
        "--licence", action="append", default=[], metavar="SET=NAME", help="licence of a data set, for the card"
    )


def licences(words: list[str]) -> dict[str, str]:
    """`SET=NAME` words as a table. Raises `UserError`."""
    pairs = [word.partition("=") for word in words]
    if wrong := next(
        (word for word, (name, _, value) in zip(words, pairs, strict=True) if not name or not value), None
    ):
        raise UserError(f"--licence {wrong}: write it as SET=NAME, such as fvqa_train=apache-2.0")
    return {name: value for name, _, value in pairs}


def run(args: argparse.Namespace) -> int:
    """Write, and print what is in it."""
    from vlagent.bench.pass_rates import pass_rates
    from vlagent.curate.export import ExportOptions, export

    forms = tuple(dict.fromkeys(word.strip() for word in args.forms.split(",") if word.strip()))
    if not forms or set(forms) - set(FORMS):
        raise UserError(f"--forms {args.forms}: one or more of {', '.join(FORMS)}")
    try:
        options = ExportOptions(
            forms=forms,
            only_right=not args.all,
            only_format_ok=args.format_ok,
            max_turns=args.max_turns,
            limit=args.limit,
            dialect=args.dialect,
            pictures=args.pictures,
            picture_format="JPEG" if args.jpeg else "PNG",
            name=args.name,
            licences=licences(args.licence),
        )
    except ValidationError as error:
        first = first_problem(error)
        raise UserError(f"{first.option} {first.given}: {first.said}") from None
    card = export(args.runs, args.out, options, pass_rates(args.pass_rates) if args.pass_rates else None)
    print(f"{args.out}: {card.items} episodes of {card.questions} questions ({', '.join(forms)})")
    for reason, count in card.left_out.items():
        print(f"  left out, {reason}: {count}")
    print(args.out / "README.md")
    return 0
