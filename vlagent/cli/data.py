"""`vlagent data VERB`: look after data sets."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.data.image_cache import CacheEstimate, CacheReport
    from vlagent.search.base import SearchServices

HELP = "look after data sets: image-cache, check, fetch"
EPILOG = """examples:
  vlagent data image-cache manifest.json:fvqa_train cache --search my-index
  vlagent data image-cache rows.jsonl cache --search live.toml --usd-per-1000 1 --dry-run
  vlagent data fetch fvqa_train,deepeyes_4k data/raw
  vlagent data check data/raw/train.json --train data/sft.jsonl

Answers of image-cache are in the published form, which evaluation and training read; a run that was stopped goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sub-verb with its own options."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    verbs = parser.add_subparsers(dest="data_verb", metavar="VERB", required=True, help="image-cache, check, fetch")
    for name, (line, declare, _) in VERBS.items():
        declare(verbs.add_parser(name, help=line, description=line))


def run(args: argparse.Namespace) -> int:
    """Run the sub-verb."""
    return VERBS[args.data_verb][2](args)


def _image_cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="MANIFEST", help="manifest.json, manifest.json:entry, or a file of rows")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for rows, thumbnails and manifest.json")
    parser.add_argument("--search", metavar="DIR", help="index made by `vlagent index images`, or a live.toml")
    parser.add_argument("--top-k", type=int, default=5, metavar="N", help="titles a picture (5)")
    parser.add_argument("--concurrency", type=int, default=8, metavar="N", help="searches at once (8)")
    parser.add_argument("--limit", type=int, metavar="N", help="the first rows of each data set")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what it would ask, and what that costs; ask nothing"
    )
    parser.add_argument("--call-s", type=float, default=1.0, metavar="S", help="seconds of a search, for --dry-run (1)")
    parser.add_argument(
        "--usd-per-1000", type=float, default=0.0, metavar="USD", help="price of 1000 searches, for --dry-run (0)"
    )


def _image_cache(args: argparse.Namespace) -> int:
    from vlagent.data.image_cache import CacheOptions, estimate_image_cache, make_image_cache

    if args.limit is not None and args.limit < 1:
        raise UserError(f"--limit {args.limit}: at least 1")
    if args.top_k < 1 or args.concurrency < 1:
        raise UserError(f"--top-k {args.top_k} --concurrency {args.concurrency}: at least 1 each")
    names = ("top_k", "concurrency", "limit", "call_s", "usd_per_1000")
    options = CacheOptions(**{name: getattr(args, name) for name in names})
    if args.dry_run:
        print(_estimated(estimate_image_cache(args.spec, args.out, options)))
        return 0
    services = _open_search(args.search)

    async def ask() -> CacheReport:
        assert services.images is not None
        try:
            return await make_image_cache(args.spec, services.images, args.out, options, _tell)
        finally:
            await services.aclose()

    report = asyncio.run(ask())
    asked = f"{report.asked} asked ({report.empty} without a hit), {report.estimate.answered} known before"
    print(f"{args.out / 'manifest.json'}: {report.estimate.rows} rows, {asked}, {len(report.failed)} failed")
    for picture, reason in report.failed[:10]:
        print(f"  {picture}: {reason}", file=sys.stderr)
    if report.failed:
        print(f"vlagent: {len(report.failed)} searches failed; the same command asks them again", file=sys.stderr)
    return 3 if report.failed else 0


def _open_search(search: str | None) -> SearchServices:
    """Services with an image search; the search itself: what samples bring along is not asked."""
    if search is None:
        raise UserError("data image-cache: which search? give --search DIR (an index) or --search live.toml")
    if search.endswith(".toml"):
        from vlagent.search.live import open_live_file

        services: SearchServices = open_live_file(Path(search), published=False)
    else:
        from vlagent.search.open import open_search

        services = open_search(Path(search), published=False)
    if services.images is None:
        raise UserError(f"{search}: no image search in it; make it: vlagent index images SOURCE... {search}")
    return services


def _tell(done: int, total: int) -> None:
    if sys.stderr.isatty() or done == total or done % 100 == 0:
        end = "\r" if sys.stderr.isatty() and done < total else "\n"
        print(f"{done} of {total} pictures", end=end, file=sys.stderr, flush=True)


def _estimated(estimate: CacheEstimate) -> str:
    return (
        f"{estimate.rows} rows ({estimate.without_picture} without a picture), {estimate.pictures} different pictures, "
        f"{estimate.answered} answered before\n"
        f"{estimate.calls} searches, about {estimate.seconds / 60:.1f} minutes, {estimate.usd:.2f} USD, "
        f"at most {estimate.thumbnail_mb:.0f} MB of thumbnails"
    )


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    from vlagent.cli.bench import add_check_arguments

    parser.add_argument("target", metavar="DATA", help="a manifest, entries of one, rows, or SUITE[,SUITE...]")
    parser.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    add_check_arguments(parser)


def _check(args: argparse.Namespace) -> int:
    from vlagent.bench.suites import data_folder
    from vlagent.cli.bench import check_data
    from vlagent.data.training_sets import names_in, target_of

    for name in ("target", "train"):
        if sets := names_in(getattr(args, name) or ""):
            setattr(args, name, target_of(sets, data_folder(args.data)))
    return check_data(args)


def _fetch_arguments(parser: argparse.ArgumentParser) -> None:
    from vlagent.cli.bench import add_fetch_arguments
    from vlagent.data.training_sets import TRAINING_SETS

    parser.add_argument("sets", metavar="SET[,SET...]", help=f"{', '.join(TRAINING_SETS)}, or see vlagent bench list")
    add_fetch_arguments(parser)


def _fetch(args: argparse.Namespace) -> int:
    from vlagent.bench.suites import SUITES
    from vlagent.cli.bench import fetch_suites
    from vlagent.data.training_sets import TRAINING_SETS, fetch_set

    names = [name.strip() for name in args.sets.split(",") if name.strip()]
    unknown = [name for name in names if name not in TRAINING_SETS and name not in SUITES]
    if unknown or not names:
        known = ", ".join((*TRAINING_SETS, *SUITES))
        raise UserError(f"{unknown[0] if unknown else args.sets!r}: no such set; there are {known}")
    folder = args.folder.expanduser()
    for name in names:
        if name in SUITES:
            args.suites = name
            fetch_suites(args)
            continue
        done = fetch_set(name, folder, hub=args.hub, revision=args.revision)
        print(f"{done.manifest}:{name}: {done.rows} rows{f' at {done.revision}' if done.revision else ''}")
    return 0


VERBS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int]]] = {
    "image-cache": (
        "search every picture of a data set once, in the published form",
        _image_cache_arguments,
        _image_cache,
    ),
    "check": ("find broken pictures, wrong answers, duplicates and overlap", _check_arguments, _check),
    "fetch": ("bring training and evaluation sets from the hub", _fetch_arguments, _fetch),
}
"""Name -> its line in --help, its options, what runs it."""
