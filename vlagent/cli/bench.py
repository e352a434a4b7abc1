"""`vlagent bench list|fetch|check|export|import`: the published sets, their files, and the way to other harnesses."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from rich.table import Table

from vlagent.bench.suites import SUITES, Layout, data_folder, load_target, names_in, resolve_suites, sets_to_check
from vlagent.bench.suites.registry import LAYOUTS, RELEASED
from vlagent.bench.table import summary_table
from vlagent.chat.open import open_chat
from vlagent.cli.judges import judge_url
from vlagent.cli.terminal import console_for, one_line, to_json, warn
from vlagent.data.check import DataCheck, check, row_sets
from vlagent.data.fetch import Wanted, fetch
from vlagent.errors import UserError
from vlagent.rewards.judge import Judge

HELP = "list, fetch and check the published evaluation sets"
EPILOG = """examples:
  vlagent bench list
  vlagent bench fetch hr_mmsearch ~/bench
  vlagent bench check hr_mmsearch --data ~/bench --train ~/train/manifest.json
  vlagent eval hr_mmsearch,mmsearch --data ~/bench --model NAME --base-url URL"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs below `bench`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    verbs = parser.add_subparsers(dest="bench_verb", metavar="VERB", required=True, help="list, fetch, check, ...")
    listing = verbs.add_parser("list", help="the suites, their sizes and layouts, and what is in DATA")
    listing.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    listing.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    fetching = verbs.add_parser("fetch", help="bring suites from the hub into DIR, each in a folder of its name")
    fetching.add_argument("suites", metavar="SUITE[,SUITE...]", help="see vlagent bench list")
    add_fetch_arguments(fetching)
    checking = verbs.add_parser("check", help="pictures, answers, duplicates, counts, and overlap with training data")
    checking.add_argument("target", help="SUITE[,SUITE...], a manifest, entries of one, or rows")
    checking.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    add_check_arguments(checking)
    exporting = verbs.add_parser("export", help="write data for another harness")
    exporting.add_argument("form", choices=("vlmevalkit", "lmms-eval"), help="a TSV, or a task directory")
    exporting.add_argument("target", help="SUITE[,SUITE...], a manifest, entries of one, or rows")
    exporting.add_argument("out", type=Path, metavar="OUT", help="the .tsv, or the folder of tasks")
    exporting.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    exporting.add_argument("--limit", type=int, metavar="N", help="first N questions of each data set")
    importing = verbs.add_parser("import", help="score what VLMEvalKit predicted, as a run")
    importing.add_argument("predictions", type=Path, help=".xlsx, .tsv, .csv, .json or .jsonl with `prediction`")
    importing.add_argument("target", help="what was exported: SUITE[,SUITE...], a manifest, entries of one, or rows")
    importing.add_argument("--run", type=Path, metavar="DIR", required=True, help="run folder to write")
    importing.add_argument("--data", metavar="DIR", help="folder with the suites' files (VLAGENT_DATA)")
    importing.add_argument("--limit", type=int, metavar="N", help="first N questions of each data set")
    importing.add_argument("--judge-model", help="judge of open answers (default: rules alone)")
    importing.add_argument("--judge-base-url", help="its endpoint (LLM_JUDGE_URL)")


def add_fetch_arguments(parser: argparse.ArgumentParser) -> None:
    """What `fetch` takes besides the name of what is fetched."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="data folder to write to")
    parser.add_argument("--hub", type=Path, metavar="DIR", help="a folder of OWNER/NAME folders in the hub's place")
    parser.add_argument("--revision", help="branch, tag or commit (default: the newest)")


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """What `check` takes besides the name of what is checked."""
    parser.add_argument("--train", metavar="DATA", help="training data (manifest or rows) to look for overlap with")
    parser.add_argument("--quick", action="store_true", help="read headers and bytes only, decode no picture")
    parser.add_argument("--list", type=int, default=20, metavar="N", help="findings of a kind to list (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Run one of them."""
    return VERBS[args.bench_verb](args)


def _list(args: argparse.Namespace) -> int:
    data = data_folder(args.data)
    if args.json:
        print(to_json({name: _facts(name, data) for name in SUITES}))
        return 0
    table = Table(box=None, pad_edge=False)
    for head, side in (("suite", "left"), ("items", "right"), ("scored by", "left"), ("Avg@", "right"), ("", "left")):
        table.add_column(head, justify="right" if side == "right" else "left", no_wrap=True)
    table.add_column("layout: where it was read")
    for name, suite in SUITES.items():
        items = "any" if suite.items is None else str(suite.items)
        there = "" if data is None else "here" if _path(name, data) else "-"
        lines = [f"{layout.name}: {_source(layout)}" for layout in LAYOUTS[name]] or ["made by `vlagent toy DIR`"]
        for number, line in enumerate(lines):
            first = (name, items, suite.metric, str(suite.k), there) if number == 0 else ("",) * 5
            table.add_row(*first, line)
    console = console_for(sys.stdout)
    console.print(table)
    console.print(f"\nEach may also be an entry of a {RELEASED.name} ({', '.join(RELEASED.files)}), read from")
    console.print(RELEASED.source)
    return 0


def _facts(name: str, data: Path | None) -> dict[str, object]:
    layouts = [
        {"name": layout.name, "files": layout.files, "source": layout.source, "verified": layout.verified}
        for layout in (*LAYOUTS[name], RELEASED)
    ]
    suite = SUITES[name].model_dump(mode="json", exclude={"hub"})
    hub = SUITES[name].hub
    return {**suite, "hub": hub.repo if hub else None, "found": _path(name, data), "layouts": layouts}


def _source(layout: Layout) -> str:
    return layout.source if layout.verified else f"unverified: {layout.source}"


def _path(name: str, data: Path | None) -> str | None:
    if data is None:
        return None
    try:
        return resolve_suites([name], data)[0].target
    except UserError:
        return None


def fetch_suites(args: argparse.Namespace) -> int:
    """Fetch, one suite after another."""
    for name in names_in(args.suites) or [args.suites]:
        if name not in SUITES:
            raise UserError(f"{name}: no such suite; suites are {', '.join(SUITES)}")
        hub = SUITES[name].hub
        if hub is None:
            raise UserError(f"{name}: it is on no hub; see vlagent bench list for where its files come from")
        wanted = Wanted(hub.repo, hub.config, hub.split, hub.target, hub.files)
        done = fetch(wanted, args.folder.expanduser() / name, hub=args.hub, revision=args.revision)
        rows = f"{done.rows} rows" if done.rows is not None else f"{len(done.files)} files"
        print(f"{args.folder / name}: {rows} of {done.repo}{f' at {done.revision}' if done.revision else ''}")
    return 0


def check_data(args: argparse.Namespace) -> int:
    """Check and print; exit code 2 where anything was found."""
    sets = sets_to_check(args.target, data_folder(args.data))
    train = row_sets(args.train) if args.train else []
    report = check(sets, train=train, decode=not args.quick)
    if args.json:
        print(to_json(report.model_dump(mode="json") | {"counts": report.counts}))
    else:
        _print_findings(report, args.list)
    return 2 if report.findings else 0


def _print_findings(report: DataCheck, limit: int) -> None:
    for name, rows in report.rows.items():
        print(f"{name}: {report.questions[name]} questions of {rows} rows can be used")
    for kind, number in report.counts.items():
        print(f"{kind}: {number}")
        mine = [finding for finding in report.findings if finding.kind == kind]
        for finding in mine[: max(0, limit)]:
            print(one_line(f"  {finding.dataset} {finding.item}: {finding.what}".replace(" : ", ": ")))
        if number > limit:
            print(f"  and {number - max(0, limit)} more; see --list or --json")
    if not report.findings:
        print(f"nothing found ({report.pictures} pictures looked at)")


def _export(args: argparse.Namespace) -> int:
    samples = load_target(args.target, data_folder(args.data), limit=args.limit, warn=warn)
    out = args.out.expanduser()
    if args.form == "vlmevalkit":
        from vlagent.integrations.vlmevalkit import export_tsv

        print(f"{export_tsv(samples, out)}: {len(samples)} questions")
        return 0
    from vlagent.integrations.lmms_eval import export_task

    name = "_".join(dict.fromkeys(sample.source for sample in samples))
    task = export_task(samples, out, name)
    print(f"{task}: {len(samples)} questions; lmms_eval --include_path {out} --tasks {task.name}")
    return 0


def _import(args: argparse.Namespace) -> int:
    from vlagent.integrations.vlmevalkit import import_predictions

    samples = load_target(args.target, data_folder(args.data), limit=args.limit, warn=warn)
    judge = Judge(open_chat(args.judge_model, judge_url(args))) if args.judge_model else None
    summary = asyncio.run(import_predictions(args.predictions, samples, args.run, judge))
    console_for(sys.stdout).print(summary_table(summary))
    return 0


VERBS = {"list": _list, "fetch": fetch_suites, "check": check_data, "export": _export, "import": _import}
