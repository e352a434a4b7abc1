"""`vlagent ablate CONFIG [key.path=value ...]`: many small runs that differ in one thing, and what they show."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from vlagent.bench.ablation import Analysis
from vlagent.bench.ablation_words import CONTRAST_HEAD, cell_row, cells_head, contrast_row, verdicts
from vlagent.cli.terminal import console_for
from vlagent.config import load_config
from vlagent.errors import UserError
from vlagent.report.ablation import is_ablation, write_ablation_report
from vlagent.train.ablate.config import AblateConfig

HELP = "run algorithms, data mixes and cold starts against each other, and say what differs"
EXIT = {"complete": 0, "failures": 3, "stopped": 130}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A configuration and what to change in it."""
    parser.add_argument("words", nargs="+", metavar="CONFIG.toml | key.path=value", help="one file, then overrides")
    parser.add_argument("--dry-run", action="store_true", help="list the runs and what they may cost, then leave")
    parser.add_argument("--page", action="store_true", help="only write table and page of the results that there are")


def run(args: argparse.Namespace) -> int:
    """Run what is left; started again after any kill, it goes on. 0 done, 3 runs failed, 130 stopped."""
    config = _config(args.words)
    if args.dry_run:
        return _dry_run(config)
    if args.page:
        _print_report(Path(config.results))
        return 0
    from vlagent.train.ablate.run import run_ablation

    outcome = run_ablation(config)
    if is_ablation(Path(config.results)):
        _print_report(Path(config.results))
    for name, why in outcome.failed.items():
        print(f"vlagent: {name} failed: {why}", file=sys.stderr)
    if outcome.ended != "complete":
        print(f"vlagent: {outcome.ended}; go on with the same command", file=sys.stderr)
    return EXIT[outcome.ended]


def _config(words: list[str]) -> AblateConfig:
    files = [word for word in words if "=" not in word]
    if len(files) != 1:
        raise UserError("ablate: one configuration file is expected, then key.path=value")
    return load_config(AblateConfig, Path(files[0]), [word for word in words if "=" in word])


def _dry_run(config: AblateConfig) -> int:
    from vlagent.train.ablate.plan import config_of, eval_words, jobs_of, prepare_words, shown, train_words
    from vlagent.train.ablate.run import is_kept, parallel_runs

    jobs = jobs_of(config)
    for step in config.prepare:
        print(f"{'done' if Path(step.makes).exists() else 'todo'}  {shown(prepare_words(step))}")
    for job in jobs:
        config_of(config, job)
        words = [train_words(config, job)] if job.trains else []
        state = "done" if is_kept(config, job) else "todo"
        print("\n".join(f"{state}  {shown(each)}" for each in (*words, eval_words(config, job))))
    left = sum(job.trains and not is_kept(config, job) for job in jobs)
    most, cores = left * config.limits.core_minutes, parallel_runs(config)
    print(
        f"{len(jobs)} runs, {left} trainings left: {most:g} core-minutes at most, {most / cores:.0f} on {cores} cores"
    )
    return 0


def _print_report(results: Path) -> None:
    written = write_ablation_report(results)
    console = console_for(sys.stdout)
    for table in _tables(written.analysis):
        console.print(table)
    for sentence in verdicts(written.analysis):
        console.print(f"- {sentence}")
    console.print(str(written.page.resolve()))


def _tables(analysis: Analysis) -> list[Table]:
    """The first columns of the tables of the page, which have more."""
    cells = [_first(cell_row(cell, analysis), 5) for cell in analysis.cells]
    contrasts = [_first(contrast_row(contrast, analysis), 3, -2, -1) for contrast in analysis.contrasts]
    found = [_table(_first(cells_head(analysis), 5), cells)]
    return [*found, _table(_first(CONTRAST_HEAD, 3, -2, -1), contrasts)] if contrasts else found


def _first(row: Sequence[str], count: int, *more: int) -> list[str]:
    return [*row[:count], *(row[place] for place in more)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
