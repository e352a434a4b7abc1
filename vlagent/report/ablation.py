"""The page of an ablation: verdict, tables, learning curves with their intervals, the paper's numbers beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from vlagent.bench.ablation import BEFORE, Analysis, Cell, RunResult, accuracy, analyse, curve_over_seeds, read_results
from vlagent.bench.ablation_words import (
    CONTRAST_HEAD,
    before_row,
    cell_name,
    cell_row,
    cells_head,
    contrast_row,
    markdown,
    published_tables,
    verdicts,
)
from vlagent.errors import UserError
from vlagent.files import write_atomic, write_json
from vlagent.report.page import asset, json_block, make_environment, script_of
from vlagent.report.pictures import PictureStore
from vlagent.report.series import Chart, Line, numbered, plain
from vlagent.report.summary import Table

CURVES = {
    "validation/success": "Success in validation",
    "success/all": "Success in training, on each mix's own questions",
    "reward/mean": "Reward",
    "calls/redundant": "Redundant calls an episode",
    "bn/p": "Share of groups that teach",
    "bn/factor": "Factor of batch normalisation",
    "ratio/one": "Ratio identically 1 (share)",
    "clip/low": "Clipped below (share)",
    "clip/high": "Clipped above (share)",
    "kl": "KL to the reference",
    "entropy": "Entropy",
    "grad_norm": "Gradient norm",
}
"""Curves of the page, in order."""
LINES = 8
"""Cells in one chart at most; more are spread over several."""


@dataclass(frozen=True)
class Written:
    """What was written."""

    page: Path
    table: Path
    analysis: Analysis


def is_ablation(folder: Path) -> bool:
    """Whether a folder holds the results of an ablation."""
    return any((folder / "runs").glob("*.json")) if (folder / "runs").is_dir() else False


def write_ablation_report(folder: Path) -> Written:
    """Write `page.html`, `table.md` and `analysis.json` beside `runs/`. `UserError` where there is no result."""
    results = read_results(folder / "runs") if (folder / "runs").is_dir() else []
    if not results:
        raise UserError(f"{folder}: holds no result of an ablation (runs/*.json)")
    analysis = analyse(results)
    written = Written(folder / "page.html", folder / "table.md", analysis)
    write_json(folder / "analysis.json", analysis)
    write_atomic(written.table, markdown(analysis))
    write_atomic(written.page, render_ablation(folder, results, analysis))
    return written


def render_ablation(folder: Path, results: Sequence[RunResult], analysis: Analysis) -> str:
    """The page as text: self-contained, asks nothing of any network."""
    sections = curve_sections(results, analysis)
    environment = make_environment(PictureStore(folder, 1))
    return environment.get_template("ablation.html").render(
        title=folder.resolve().name,
        analysis=analysis,
        verdicts=verdicts(analysis),
        tables=_tables(analysis),
        published=[Table(title, tuple(head), tuple(map(tuple, rows))) for title, head, rows in published_tables()],
        runs=_runs_table(results, analysis),
        sections=numbered(sections),
        css=Markup(asset("page.css") + asset("charts.css")),
        charts=Markup(json_block(plain(sections))),
        **script_of("charts.js"),
    )


def _tables(analysis: Analysis) -> list[Table]:
    rows = [before_row(name, cell, analysis) for name, cell in analysis.before.items()]
    rows += [cell_row(cell, analysis) for cell in analysis.cells]
    contrasts = [contrast_row(contrast, analysis) for contrast in analysis.contrasts]
    found = [Table("Success in %, mean over seeds", tuple(cells_head(analysis)), tuple(map(tuple, rows)))]
    return [*found, Table("Contrasts in points", CONTRAST_HEAD, tuple(map(tuple, contrasts)))] if contrasts else found


def _runs_table(results: Sequence[RunResult], analysis: Analysis) -> Table:
    rows = [
        (
            BEFORE if run.arm == BEFORE else cell_name(run.cell, analysis),
            str(run.seed),
            f"{100 * accuracy(run):.1f}",
            str(run.steps),
            f"{run.core_s / 60:.2f}" + ("+" if run.interrupted else ""),
            run.commit,
            run.commands[0],
        )
        for run in sorted(results, key=lambda run: (run.cell, run.seed))
    ]
    return Table("Runs", ("", "seed", "success %", "steps", "core min", "commit", "command"), tuple(rows), folded=True)


def curve_sections(results: Sequence[RunResult], analysis: Analysis) -> dict[str, list[Chart]]:
    """A section for each coordinate that differs (arms, mixes, starts): its cells' curves over the seeds."""
    cells = [cell.cell for cell in analysis.cells]
    runs = {cell: [run for run in results if run.cell == cell] for cell in cells}
    sections: dict[str, list[Chart]] = {}
    for place, title in enumerate(("Algorithms", "Data mixes", "Cold starts")):
        for members in _alike(cells, place):
            charts = [chart for name in CURVES if (chart := _chart(name, members, runs, analysis))]
            sections.setdefault(title, []).extend(charts)
    if not sections and cells:
        sections["Curves"] = [chart for name in CURVES if (chart := _chart(name, cells[:LINES], runs, analysis))]
    return sections


def _alike(cells: Sequence[Cell], place: int) -> list[list[Cell]]:
    """Groups of cells that differ in one place only."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(cell[:place] + cell[place + 1 :], []).append(cell)
    return [members[:LINES] for members in groups.values() if len(members) > 1]


def _chart(name: str, cells: Sequence[Cell], runs: dict[Cell, list[RunResult]], analysis: Analysis) -> Chart | None:
    lines = []
    for cell in cells:
        points = curve_over_seeds(runs[cell], name)
        band = tuple((x, low, high) for x, _, low, high in points if low is not None and high is not None)
        if points:
            lines.append(Line(cell_name(cell, analysis), tuple((x, mean) for x, mean, _, _ in points), band))
    return Chart(CURVES[name], tuple(lines)) if lines else None
