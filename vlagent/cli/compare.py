"""`vlagent compare RUN RUN [RUN...]`: each later run against the first, question by question."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from vlagent.bench.compare import Comparison, Flip, Pairing, compare
from vlagent.cli.terminal import console_for, one_line, to_json
from vlagent.errors import UserError

HELP = "compare runs question by question"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `compare`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run folders; the first is the baseline")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap (default: 0)")
    parser.add_argument("--list", type=int, default=20, metavar="N", help="changed questions to list (default: 20)")
    parser.add_argument("--page", type=Path, metavar="FILE.html", help="write them beside one another, with episodes")
    parser.add_argument("--json", action="store_true", help="print one JSON list of comparisons and nothing else")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    if len(args.runs) < 2:
        raise UserError("compare: two runs at least")
    first, *others = args.runs
    compared = [compare(first, other, seed=args.seed) for other in others]
    if args.page:
        from vlagent.report.comparison import write_comparison

        print(write_comparison(args.runs, args.page, compared).resolve(), file=sys.stderr)
    if args.json:
        print(to_json([each.model_dump(mode="json") for each in compared]))
        return 0
    console = console_for(sys.stdout)
    for comparison in compared:
        console.print(_table(comparison))
        _print_lists(comparison, args.list, console)
    return 0


def _table(comparison: Comparison) -> Table:
    table = Table(title=f"{comparison.first} -> {comparison.second}", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for head in ("first", "second", "change", "95 %", "p", "better", "worse", "pairs"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, pairing in comparison.suites.items():
        table.add_row(name, *_cells(pairing))
    if len(comparison.suites) > 1:
        table.add_row("all", *_cells(comparison.all), style="bold")
    return table


def _cells(pairing: Pairing) -> Iterator[str]:
    low_high = pairing.interval
    yield f"{100 * (pairing.first or 0):.1f} %"
    yield f"{100 * (pairing.second or 0):.1f} %"
    yield f"{100 * (pairing.difference or 0):+.1f}"
    yield f"{100 * low_high[0]:+.1f}..{100 * low_high[1]:+.1f}" if low_high else "one pair"
    yield f"{pairing.p_value:.3f}" if pairing.p_value >= 0.001 else "<0.001"
    yield from (str(pairing.better), str(pairing.worse), str(pairing.pairs))


def _print_lists(comparison: Comparison, limit: int, console: Console) -> None:
    for title, flips in (
        ("Better", [flip for flip in comparison.flips if flip.second > flip.first]),
        ("Worse", [flip for flip in comparison.flips if flip.second < flip.first]),
    ):
        if flips:
            console.print(f"\n{title} ({len(flips)}):")
        for flip in flips[:limit]:
            console.print(f"  {_line(flip)}")
        if len(flips) > limit:
            console.print(f"  and {len(flips) - limit} more; see --list or --json")
    if comparison.unpaired:
        console.print(f"\nNot compared ({len(comparison.unpaired)}):")
    for each in comparison.unpaired[:limit]:
        console.print(f"  {one_line(f'{each.suite} {each.sample_id}: {each.why}')}")
    if len(comparison.unpaired) > limit:
        console.print(f"  and {len(comparison.unpaired) - limit} more; see --list or --json")


def _line(flip: Flip) -> str:
    said = f"{_short(flip.first_answer)} -> {_short(flip.second_answer)}, accepted: {_short(' | '.join(flip.answers))}"
    change = "" if {flip.first, flip.second} == {0.0, 1.0} else f" ({flip.first:.2f} -> {flip.second:.2f})"
    return one_line(f"{flip.suite} {flip.sample_id}{change}: {said}")


def _short(text: str | None, limit: int = 60) -> str:
    line = one_line(text or "")
    return "no answer" if text is None else line if len(line) <= limit else line[: limit - 3] + "..."
