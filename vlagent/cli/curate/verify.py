"""`vlagent curate verify RUN... --to OUT`: which episodes are fit to learn from, and why the others are not."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from vlagent.cli import judges
from vlagent.cli.curate import options
from vlagent.cli.terminal import warn
from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.curate.verify import Checks, Verified
    from vlagent.curate.verify_model import Reviewer
    from vlagent.types import Sample

EPILOG = """examples:
  vlagent curate verify runs/made --to runs/clean --against runs/toy/manifest.json:toy_test
  vlagent curate verify runs/made --to runs/clean --against hr_mmsearch --data ~/bench \\
      --model gpt-4o --base-url URL --price 2.5,10 --dry-run

OUT is a run folder of the kept episodes (`sources.run` of a fine-tuning configuration); OUT/rejected one of the others;
OUT/findings.jsonl says why. Exit code: 0 done; 3 where the reviewer could not be asked about some episodes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is checked, against what, and by whom."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="run folders; of duplicates the first is kept"
    )
    parser.add_argument("--to", type=Path, required=True, metavar="OUT", help="folder of the kept episodes")
    parser.add_argument(
        "--against", metavar="DATA", help="test data (suite, manifest, rows) that nothing may overlap with"
    )
    parser.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    parser.add_argument(
        "--strict-leaks", action="store_true", help="the model had been told the answer (as --hint does)"
    )
    parser.add_argument("--allow-direct", action="store_true", help="accept answers from the picture without any call")
    parser.add_argument("--model", help="a second model that reads what the rules accept (default: rules alone)")
    parser.add_argument("--base-url", help="its endpoint")
    parser.add_argument("--text-only", action="store_true", help="show it no pictures")
    parser.add_argument("--attempts", type=int, default=5, metavar="N", help="tries of one call (default: 5)")
    parser.add_argument("--price", type=judges.prices, metavar="IN,OUT", help="US dollars for a million of its tokens")
    parser.add_argument("--dry-run", action="store_true", help="print findings and calls, ask no model, write nothing")


def run(args: argparse.Namespace) -> int:
    """Check and write; exit code 3 where a review failed."""
    from vlagent.curate.verify import Checks, describe

    if not args.model and (args.base_url or args.price or args.text_only):
        raise UserError("--base-url, --price, --text-only: there is no second model; name one with --model")
    options.check_at_least("--attempts", args.attempts, 1)
    checks = Checks(strict_leaks=args.strict_leaks or any(map(_hinted, args.runs)), allow_direct=args.allow_direct)
    against = _against(args)
    if args.dry_run:
        print(asyncio.run(_quote(args, checks, against)))
        return 0
    found = asyncio.run(_verify(args, checks, against))
    print(describe(found))
    print(args.to)
    return 3 if found.unreviewed else 0


def _hinted(run: Path) -> bool:
    from vlagent.curate.synthesise import read_settings

    return read_settings(run).hint


def _against(args: argparse.Namespace) -> list[Sample]:
    if args.against is None:
        return []
    from vlagent.bench.suites import data_folder, load_target

    return load_target(args.against, data_folder(args.data), warn=warn)


async def _verify(args: argparse.Namespace, checks: Checks, against: list[Sample]) -> Verified:
    from vlagent.cli.models import close_model
    from vlagent.curate.verify import verify

    reviewer = _reviewer(args)
    try:
        return await verify(args.runs, args.to, checks, against, reviewer)
    finally:
        if reviewer is not None:
            await close_model(reviewer.model)


def _reviewer(args: argparse.Namespace) -> Reviewer | None:
    if not args.model:
        return None
    from vlagent.cli.models import open_model
    from vlagent.curate.budget import CALLS
    from vlagent.curate.verify_model import Reviewer

    prompt, completion = args.price or (0.0, 0.0)
    model = open_model(
        args.model,
        args.base_url,
        attempts=args.attempts,
        usd_per_million_prompt_tokens=prompt,
        usd_per_million_completion_tokens=completion,
    )
    return Reviewer(options.paid(model, args.model, args.to / CALLS), with_images=not args.text_only)


async def _quote(args: argparse.Namespace, checks: Checks, against: list[Sample]) -> str:
    """What the rules find, and what the reviews of the rest would take."""
    from vlagent.curate.budget import CALLS
    from vlagent.curate.verify import check_rules
    from vlagent.curate.verify_quote import quote_reviews

    work = await check_rules(args.runs, checks, against)
    lines = [f"rules: {len(work.pairs)} episodes, {len(work.to_review)} without a finding"]
    if args.model:
        lines.append(quote_reviews(work, args.model, args.to / CALLS, args.price, not args.text_only).line())
    return "\n".join(lines)
