"""Scores of runs as one table, the published ones beside them; as Markdown, CSV or LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from vlagent.bench.published import published
from vlagent.bench.suites import SUITES
from vlagent.bench.summary import PUBLISHED_AVERAGES, Summary, summarise
from vlagent.types import Record

Origin = Literal["run", "published", "reproduced"]
WORDS = {"run": "this run", "published": "published", "reproduced": "reported by a user"}


class Score(Record):
    """One score in percent."""

    value: float
    error: float | None = None
    """Standard error in points; published scores have none."""
    right: int | None = None
    scored: int | None = None
    """What it is a share of."""
    note: str = ""
    """`invalid`, or what is missing from the whole set."""


class ResultRow(Record):
    """One line: a model in a workflow."""

    origin: Origin
    model: str
    workflow: str
    scores: dict[str, Score] = Field(default_factory=dict)
    averages: dict[str, Score] = Field(default_factory=dict)
    source: str = ""


class Results(Record):
    """The table."""

    suites: tuple[str, ...]
    """Columns: the data sets of the runs, in their order."""
    averages: tuple[str, ...]
    rows: tuple[ResultRow, ...]


def results(runs: Sequence[Path], *, published: bool = False) -> Results:
    """The scores of run folders; with `published` those of the papers for the same suites below them.

    Raises `UserError` where a folder is no evaluation.
    """
    ours = [_ours(run, summarise(run)) for run in runs]
    suites = tuple(dict.fromkeys(name for row in ours for name in row.scores))
    theirs = [row for row in published_rows() if set(row.scores) & set(suites)] if published else []
    rows = [*ours, *theirs]
    averages = dict.fromkeys(name for row in ours for name in row.averages)
    return Results(suites=suites, averages=tuple(averages), rows=tuple(rows))


def _ours(run: Path, summary: Summary) -> ResultRow:
    invalid = "" if summary.validity is None or summary.validity.valid else "invalid"
    scores = {}
    for name, suite in summary.suites.items():
        counts, known = suite.counts, canonical(name)
        value = counts.avg_at_k if suite.k > 1 else counts.accuracy
        if value is None:
            continue
        whole = SUITES[known].items if known in SUITES else None
        part = "" if whole in (None, counts.questions) else f"{counts.questions} of {whole} questions"
        error = None if counts.standard_error is None else 100 * counts.standard_error
        scores[known] = Score(
            value=100 * value,
            error=error,
            right=counts.right,
            scored=counts.scored,
            note="; ".join(filter(None, (invalid, part))),
        )
    averages = {name: Score(value=100 * value) for name, value in summary.averages.items()}
    model = summary.model or run.name
    return ResultRow(
        origin="run", model=model, workflow=summary.workflow, scores=scores, averages=averages, source=str(run)
    )


def canonical(name: str) -> str:
    """The suite that a data set's name stands for, or the name itself."""
    return next((suite for suite, known in SUITES.items() if name in (suite, *known.entries)), name)


def published_rows() -> list[ResultRow]:
    """The scores of the papers' tables and those that users report, as they were printed."""
    table = published()
    rows = [
        *(_published(row, table["source"], "search") for row in table["search"]),
        *(_published(row, table["source"], "high resolution") for row in table["high_resolution"]),
    ]
    reported = [
        ResultRow(
            origin="reproduced",
            model=row["model"],
            workflow="agent",
            scores={name: Score(value=value) for name, value in row["scores"].items()},
            source=row["source"],
        )
        for row in table["user_reproductions"]
    ]
    return [*_merged(rows), *reported]


def _published(row: dict[str, Any], source: str, average: str) -> ResultRow:
    value = row.get("average")
    return ResultRow(
        origin="published",
        model=row["model"],
        workflow=row["workflow"],
        scores={name: Score(value=score) for name, score in row["scores"].items()},
        averages={} if value is None else {average: Score(value=value)},
        source=source,
    )


def _merged(rows: Iterable[ResultRow]) -> list[ResultRow]:
    """The two tables of one model and workflow on one line."""
    merged: dict[tuple[str, str], ResultRow] = {}
    for row in rows:
        known = merged.get((row.model, row.workflow))
        if known is not None:
            both = {"scores": known.scores | row.scores, "averages": known.averages | row.averages}
            row = known.model_copy(update=both)
        merged[row.model, row.workflow] = row
    return list(merged.values())


def to_markdown(table: Results) -> str:
    """A table; each of our scores with its standard error and what it is a share of."""
    head = ("model", "workflow", "from", *table.suites, *(f"average, {name}" for name in table.averages))
    lines = [_line(head), _line(["---"] * 3 + ["---:"] * (len(head) - 3))]
    for row in table.rows:
        cells = [row.scores.get(name) for name in table.suites] + [row.averages.get(name) for name in table.averages]
        lines.append(_line([row.model, row.workflow, WORDS[row.origin], *map(_markdown_cell, cells)]))
    notes = [f"- {row.model}, {name}: {score.note}" for row, name, score in _noted(table)]
    members = [f"- average, {name}: the mean of {', '.join(PUBLISHED_AVERAGES[name])}" for name in table.averages]
    ours = "Percent; ours with the standard error and right/scored. Published scores are as printed."
    return "\n".join([*lines, "", ours, *members, *notes]) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _markdown_cell(score: Score | None) -> str:
    if score is None:
        return ""
    error = "" if score.error is None else f" ± {score.error:.1f}"
    share = "" if score.scored is None else f" ({score.right}/{score.scored})"
    return f"{score.value:.2f}{error}{share}{'*' if score.note else ''}"


def _noted(table: Results) -> list[tuple[ResultRow, str, Score]]:
    return [(row, name, score) for row in table.rows for name, score in row.scores.items() if score.note]


def to_csv(table: Results) -> str:
    """One line a score, so that nothing is lost."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("model", "workflow", "origin", "suite", "percent", "error", "right", "scored", "note", "source"))
    for row in table.rows:
        wanted = [(name, row.scores.get(name)) for name in table.suites]
        wanted += [(f"average {name}", row.averages.get(name)) for name in table.averages]
        for name, score in wanted:
            if score is not None:
                numbers = (f"{score.value:.4g}", _blank(score.error), _blank(score.right), _blank(score.scored))
                cells = (row.model, row.workflow, row.origin, name, *numbers, score.note, row.source)
                writer.writerow([harmless(str(cell)) for cell in cells])
    return out.getvalue()


def _blank(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def harmless(cell: str) -> str:
    """A cell that no spreadsheet runs as a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "@", "\t", "\r") or (cell[:1] == "-" and not _is_number(cell)) else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_latex(table: Results) -> str:
    """A booktabs table; the best of each column is bold."""
    columns = [*table.suites, *(f"average, {name}" for name in table.averages)]
    best = {name: max((s.value for s in _column(table, name)), default=None) for name in columns}
    lines = [f"\\begin{{tabular}}{{ll{'r' * len(columns)}}}", "\\toprule"]
    lines.append(" & ".join(["Model", "Workflow", *map(_tex, columns)]) + r" \\")
    lines.append("\\midrule")
    before = None
    for row in table.rows:
        if before not in (None, row.origin):
            lines.append("\\midrule")
        before = row.origin
        cells = [_cell_of(row, name) for name in columns]
        shown = [_latex_cell(score, best[name]) for name, score in zip(columns, cells, strict=True)]
        lines.append(" & ".join([_tex(row.model), _tex(row.workflow), *shown]) + r" \\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _column(table: Results, name: str) -> list[Score]:
    return [score for row in table.rows if (score := _cell_of(row, name)) is not None]


def _cell_of(row: ResultRow, column: str) -> Score | None:
    return (
        row.averages.get(column.removeprefix("average, ")) if column.startswith("average, ") else row.scores.get(column)
    )


def _latex_cell(score: Score | None, best: float | None) -> str:
    if score is None:
        return "--"
    value = f"{score.value:.2f}"
    shown = f"\\textbf{{{value}}}" if score.value == best else value
    return shown if score.error is None else f"{shown}\\,{{\\scriptsize$\\pm${score.error:.1f}}}"


def _tex(text: str) -> str:
    """Text of a cell; LaTeX's own characters are escaped."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(special.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)


FORMATS: dict[str, Callable[[Results], str]] = {"markdown": to_markdown, "csv": to_csv, "latex": to_latex}
