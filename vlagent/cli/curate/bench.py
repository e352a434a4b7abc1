"""`vlagent curate bench VERB`: build a benchmark like HR-MMSearch, stage by stage. Each stage can be run again."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlagent.cli.curate import bench_models
from vlagent.cli.terminal import one_line, warn
from vlagent.errors import UserError

if TYPE_CHECKING:
    from vlagent.curate.bench.checks import Checker
    from vlagent.curate.bench.folder import Bench
    from vlagent.curate.bench.importing import Imported

EPILOG = """examples:
  vlagent curate bench collect photos/ my-bench --licence "CC BY 4.0"
  vlagent curate bench collect https://example.org/feed.xml my-bench
  vlagent curate bench filter my-bench --against train/manifest.json
  vlagent curate bench annotate my-bench
  vlagent curate bench check my-bench --model NAME --base-url URL
  vlagent curate bench difficulty my-bench --model NAME --base-url URL --search live.toml
  vlagent curate bench publish my-bench published

my-bench/bench.toml holds the rules. Every stage goes on where it was stopped and never pays for an answer twice."""
Add = Callable[[argparse.ArgumentParser], None]
Run = Callable[[argparse.Namespace], int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A sub-verb a stage."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    verbs = parser.add_subparsers(dest="bench_verb", metavar="VERB", required=True, help=", ".join(VERBS))
    for name, (line, declare, _) in VERBS.items():
        declare(verbs.add_parser(name, help=line, description=line))


def run(args: argparse.Namespace) -> int:
    """Run the stage."""
    return VERBS[args.bench_verb][2](args)


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bench", type=Path, metavar="BENCH", help="folder of the benchmark")


def _open(args: argparse.Namespace) -> Bench:
    from vlagent.curate.bench.folder import open_bench

    return open_bench(args.bench)


# ---- collect


def _collect_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources", nargs="+", metavar="SOURCE", help="folder, picture, list of addresses, feed, sitemap, page"
    )
    _folder(parser)
    parser.add_argument("--licence", default="", help="of pictures whose source states none")
    parser.add_argument("--date", default="", help="ISO date of pictures whose source states none")
    parser.add_argument("--again", action="store_true", help="ask refused sources again, after a change of the rules")


def _collect(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.collect import Given, collect_now
    from vlagent.curate.bench.folder import Bench
    from vlagent.curate.bench.sources import iso_date

    if args.date and iso_date(args.date) != args.date:
        raise UserError(f"--date {args.date}: write it as 2025-01-31")
    given = Given(licence=args.licence, date=args.date, again=args.again)
    end = collect_now(Bench(args.bench), args.sources, given, _tell("sources"))
    _list(end.refused)
    _list(end.failed)
    print(f"{args.bench}: {end.new} new pictures, {end.known} sources known, {len(end.refused)} refused")
    if end.completed:
        print(f"{end.completed} pictures got the licence or the date that they lacked")
    for source in end.empty:
        warn(f"{source}: a feed or sitemap that names nothing, or is damaged")
    for source in end.cut:
        warn(f"{source}: names more than collect.most addresses; the rest was not looked at: raise it in bench.toml")
    if end.failed:
        warn(f"{len(end.failed)} sources failed; the same command asks them again")
    return 3 if end.failed else 0


# ---- filter


def _filter_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    parser.add_argument("--against", action="append", default=[], metavar="DATA", help="set whose pictures are refused")


def _filter(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.sieve import sieve
    from vlagent.data.manifest import load_samples

    bench = _open(args)
    against = [sample for spec in args.against for sample in load_samples(spec, warn=warn)]
    end = sieve(bench, against=against, tell=_tell("pictures"))
    _list({each.id: "; ".join(each.why) for each in bench.sieved().values() if not each.kept})
    print(f"{args.bench}: {end.kept} of {end.kept + end.refused} pictures kept ({end.known} judged before)")
    return 0


# ---- annotate


def _annotate_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address of this machine (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8765, help="0 takes a free one (8765)")
    parser.add_argument("--import", dest="spec", metavar="DATA", help="take over a set (rows, manifest) and end")
    parser.add_argument("--as", dest="author", default="imported", metavar="NAME", help="its author (imported)")
    parser.add_argument("--licence", default="", help="of the pictures of --import")
    parser.add_argument("--import-label-studio", type=Path, metavar="JSON", help="take over an export and end")
    parser.add_argument(
        "--export-label-studio", type=Path, metavar="JSON", help="write tasks and configuration, and end"
    )


def _annotate(args: argparse.Namespace) -> int:
    if args.spec:
        return _said(_import_samples(args))
    if args.import_label_studio:
        from vlagent.curate.bench.importing import import_tasks

        return _said(import_tasks(_open(args), args.import_label_studio))
    if args.export_label_studio:
        from vlagent.curate.bench.label_studio import export_tasks

        count = export_tasks(_open(args), args.export_label_studio)
        print(f"{args.export_label_studio}: {count} questions; {args.export_label_studio.with_suffix('.xml')}")
        return 0
    return _serve(args)


def _serve(args: argparse.Namespace) -> int:
    try:
        from vlagent.curate.bench.server import serve
    except ImportError:
        raise UserError("the page needs a web server: pip install 'vlagent[serve]'") from None
    serve(_open(args), args.host, args.port, lambda url: print(f"{url} (Ctrl-C ends it)", flush=True))
    return 0


def _import_samples(args: argparse.Namespace) -> Imported:
    from vlagent.curate.bench.collect import Given
    from vlagent.curate.bench.folder import Bench
    from vlagent.curate.bench.importing import import_samples
    from vlagent.data.manifest import load_samples

    samples = load_samples(args.spec, warn=warn)
    return asyncio.run(import_samples(Bench(args.bench), samples, args.author, Given(licence=args.licence)))


def _said(end: Imported) -> int:
    for line in end.left_out:
        warn(line)
    print(f"{end.new} questions taken over as drafts, {end.known} known, {len(end.left_out)} left out")
    return 0


# ---- check


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    bench_models.add_arguments(parser)
    parser.add_argument("--train", action="append", default=[], metavar="DATA", help="set that must share nothing")
    parser.add_argument("--accept", metavar="QUESTION:CHECK", help="overrule a failed check, with --because, and end")
    parser.add_argument("--because", default="", metavar="TEXT", help="why it is right all the same")
    parser.add_argument("--no-pages", action="store_true", help="do not open the links of the evidence")


def _check(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.book import tally
    from vlagent.curate.bench.checks import check

    bench = _open(args)
    if args.accept:
        return _accept(bench, args.accept, args.because)
    if args.dry_run:
        for line in bench_models.quote_checks(args, bench):
            print(line)
        return 0
    checker = _checker(args, bench)
    found = asyncio.run(_closing(check(bench, checker), checker))
    _list(found.failed)
    _list(found.undecided)
    people = tally(bench)
    for name, said in people.disputes.items():
        warn(f"{name} is disputed: {'; '.join(said)}")
    print(", ".join(f"{count} {name}" for name, count in people.standings.items()))
    print(f"{people.reviews} reviews, the own answer accepted in {people.blind_matched}{_alpha(people.agreement)}")
    print(f"{found.passed} checks passed, {len(found.failed)} failed, {len(found.undecided)} undecided")
    return 3 if found.undecided else 0


def _accept(bench: Bench, named: str, why: str) -> int:
    from vlagent.curate.bench.checks import accept

    question, _, check = named.rpartition(":")
    said = accept(bench, question, check, why)
    print(f"{said.item} {said.check}: accepted ({said.why})")
    return 0


def _alpha(agreement: Any) -> str:
    known = agreement is not None and agreement.alpha is not None
    return f"; Krippendorff's alpha {agreement.alpha:.2f}" if known else ""


def _checker(args: argparse.Namespace, bench: Bench) -> Checker:
    from vlagent.curate.bench.checks import Checker
    from vlagent.data.manifest import load_samples
    from vlagent.search.pages.config import PageConfig
    from vlagent.search.pages.reader import WebPages

    named = bool(args.model or args.base_url)
    rules = bench.config.collect
    pages = PageConfig(user_agent=rules.user_agent, allow=rules.allow, ports=rules.ports)
    return Checker(
        blind=bench_models.player(args, bench, "blind") if named else None,
        no_tools=bench_models.player(args, bench, "no_tools") if named else None,
        pages=None if args.no_pages else WebPages(pages),
        train=[sample for spec in args.train for sample in load_samples(spec, warn=warn)],
        tell=_tell("answers"),
    )


async def _closing(work: Any, checker: Checker) -> Any:
    try:
        return await work
    finally:
        for player in (checker.blind, checker.no_tools):
            await bench_models.close(player)
        if checker.pages is not None:
            await checker.pages.aclose()  # type: ignore[attr-defined]


# ---- difficulty


def _difficulty_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    bench_models.add_arguments(parser)
    parser.add_argument("--search", metavar="DIR", help="what the tools search: a search folder, or a live.toml")


def _difficulty(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.difficulty import Measured, measure

    bench = _open(args)
    if args.dry_run:
        print(bench_models.quote_difficulty(args, bench))
        return 0
    player = bench_models.player(args, bench, "difficulty")

    async def play() -> Measured:
        try:
            return await measure(bench, player, _tell("answers"))
        finally:
            await bench_models.close(player)

    found = asyncio.run(play())
    levels = [each.level for each in bench.difficulty().values()]
    print(f"{found.hard} hard, {found.easy} easy, {found.known} measured before")
    print(f"now {levels.count('hard')} of {len(levels)} are hard")
    if found.undecided:
        warn(f"{len(found.undecided)} undecided, since a service failed; the same command plays these again")
    return 3 if found.undecided else 0


# ---- publish, status


def _publish_arguments(parser: argparse.ArgumentParser) -> None:
    _folder(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="data folder; OUT/hr_mmsearch is written")
    parser.add_argument("--unchecked", action="store_true", help="also what lacks automatic checks or a difficulty")
    parser.add_argument("--seal", action="store_true", help="put the answers under VLAGENT_BENCH_PASSWORD")


def _publish(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.publish import Options, publish
    from vlagent.data.sealed import PASSWORD

    password = os.environ.get(PASSWORD, "") if args.seal else ""
    if args.seal and not password:
        raise UserError(f"--seal: set {PASSWORD} to the password of the answers")
    end = publish(_open(args), args.out, Options(unchecked=args.unchecked, password=password))
    _list(end.held_back)
    print(f"{end.folder}: {end.questions} questions, {len(end.held_back)} held back")
    print(f"vlagent eval hr_mmsearch --data {args.out} --model NAME --base-url URL")
    return 0


def _status(args: argparse.Namespace) -> int:
    from vlagent.curate.bench.book import tally
    from vlagent.curate.bench.publish import held_back

    bench = _open(args)
    people, held = tally(bench), held_back(bench)
    print(f"{len(bench.pictures())} pictures, {len(bench.refused())} sources refused, {len(bench.usable())} usable")
    print(f"{people.questions} questions: " + ", ".join(f"{n} {name}" for name, n in people.standings.items()))
    print(f"{len(bench.difficulty())} with a difficulty, {people.questions - len(held)} ready to be published")
    _list(held)
    return 0


def _tell(what: str) -> Callable[[int, int], None]:
    def tell(done: int, total: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {total} {what}   ", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return tell


def _list(reasons: dict[str, str]) -> None:
    for name, why in reasons.items():
        print(f"  {one_line(name)}: {one_line(why)}", file=sys.stderr)


VERBS: dict[str, tuple[str, Add, Run]] = {
    "collect": ("take pictures from folders, lists, feeds, sitemaps and pages", _collect_arguments, _collect),
    "filter": ("keep large, sharp, recent pictures with small things in them, each once", _filter_arguments, _filter),
    "annotate": ("write and review questions on a local page; import and export", _annotate_arguments, _annotate),
    "check": ("agreement of the reviewers, and what a machine can check", _check_arguments, _check),
    "difficulty": ("pass@8 of a model with tools: none right is hard", _difficulty_arguments, _difficulty),
    "publish": ("write the set in the layout of HR-MMSearch, with a card", _publish_arguments, _publish),
    "status": ("where each stage stands, and what holds questions back", _folder, _status),
}
"""Name -> its line in --help, its options, what runs it."""
