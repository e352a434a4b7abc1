"""`vlagent bench list|fetch|check|export|import`: the published sets, their files, and the way to other harnesses."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.table import Table

from vlagent.bench.suites import SUITES, Layout, data_folder, resolve_suites
from vlagent.bench.suites.registry import LAYOUTS, RELEASED
from vlagent.cli.terminal import console_for, to_json
from vlagent.errors import UserError

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


VERBS = {"list": _list}
