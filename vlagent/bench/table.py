"""The table at the end of an evaluation."""

from __future__ import annotations

from rich.table import Table

from vlagent.bench.summary import Counts, Summary


def summary_table(summary: Summary) -> Table:
    """One line a suite and a slice: accuracy with its standard error and denominator, and where the rest went."""
    many = summary.k > 1
    title = f"{summary.model or 'model'}, {summary.workflow}, scored by {summary.scoring}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    heads = [f"Avg@{summary.k}", "±", f"pass@{summary.k}"] if many else ["accuracy", "±"]
    for head in (*heads, "95 %", "right/scored", "unscored", "failed", "total"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, suite in summary.suites.items():
        table.add_row(name, *_cells(suite.counts, many), style="bold")
        for values in suite.slices.values():
            for value, counts in values.items() if len(values) > 1 else ():
                table.add_row(f"  {value}", *_cells(counts, many))
    if len(summary.suites) > 1:
        table.add_row("all questions", *_cells(summary.counts, many), style="bold")
    return table


def _cells(counts: Counts, many: bool) -> list[str]:
    error = "" if counts.standard_error is None else f"{100 * counts.standard_error:.1f}"
    low_high = "" if counts.interval is None else f"{100 * counts.interval[0]:.1f}-{100 * counts.interval[1]:.1f}"
    return [
        _percent(counts.avg_at_k if many else counts.accuracy),
        error,
        *([_percent(counts.pass_at_k)] if many else []),
        low_high,
        f"{counts.right}/{counts.scored}",
        str(counts.unscored),
        str(counts.failed),
        str(counts.total),
    ]


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.1f} %"
