"""The page of a training run: its curves, what it did with its tools before and after, its episodes by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from markupsafe import Markup

from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, read_records, write_atomic
from vlagent.report.cards import Card, RunContents
from vlagent.report.page import asset, json_block, make_environment, script_of
from vlagent.report.pictures import PictureStore
from vlagent.report.series import Point, charts_of, numbered, plain, read_table, window
from vlagent.report.summary import Table
from vlagent.types import EvalRow, Sample, Trajectory

T = TypeVar("T")
METRICS = "metrics.jsonl"
VERBS = ("rl", "sft", "stage0")
SELECTS = (("step", "Step"), ("kind", "Kind"), ("tools", "Tool"), ("stop", "Stop reason"))
STEPS, GROUPS = 6, 4
"""Recorded steps on the page, and groups of each: evenly spread, the first and the last always."""
CELL = "calls_by_kind/"
COMPARED = {
    "success/all": "Success",
    "validation/success": "Success in validation",
    "reward/mean": "Reward",
    "reward/format": "In form",
    "calls/all": "Tool calls an episode",
    "calls/redundant": "Calls that bring nothing",
    "turns/mean": "Turns an episode",
    "turns/invalid": "Invalid actions an episode",
    "length/mean": "Tokens an episode",
    "bn/p": "Groups that teach (share)",
    "bn/factor": "Factor of batch normalisation",
    "entropy": "Entropy",
    "loss": "Loss",
    "time/step_s": "Seconds a step",
}
"""Numbers of the table on top, in order."""


@dataclass(frozen=True)
class StepCard(Card):
    """An episode of a training step."""

    step: int = 0

    @property
    def where(self) -> str:
        return f"step {self.step}"

    @property
    def kind(self) -> str:
        return self.row.slices.get("kind", self.suite) if self.row else self.suite


@dataclass(frozen=True)
class Cell:
    """One cell of the heat map: mean calls of a tool in an episode of a kind."""

    before: float
    after: float


@dataclass(frozen=True)
class HeatMap:
    """Use of tools by kind of question, over the first and over the last steps."""

    kinds: tuple[str, ...]
    tools: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    @property
    def most(self) -> float:
        """The largest mean, for the scale of the colours."""
        return max((max(cell.before, cell.after) for cell in self.cells.values()), default=0.0) or 1.0


def is_training(run: Path) -> bool:
    """Whether a folder is that of a training run."""
    if not (run / "config.json").exists():
        return False
    config = read_json(run / "config.json")
    return isinstance(config, dict) and config.get("verb") in VERBS


def write_training_report(run: Path) -> Path:
    """Write `report.html` into the folder of a training run and return its path. `UserError` where it is none."""
    if not (run / METRICS).exists() and not is_training(run):
        raise UserError(f"{run}: not the folder of a training run (it has no {METRICS})")
    path = run / "report.html"
    write_atomic(path, render_training(run))
    return path


def render_training(run: Path) -> str:
    """The page as text: self-contained, asks nothing of any network."""
    lines = _lines(run)
    table = read_table(lines)
    alarms = _alarms(run)
    sections = charts_of(table, _marks(alarms))
    contents = RunContents(run, read_steps(run), "", {})
    store = PictureStore(run, 448 if len(contents.cards) > 40 else 640)
    environment = make_environment(store)
    body = {
        "contents": contents,
        "title": run.resolve().name,
        "progress": _progress(run, lines),
        "alarms": alarms,
        "compared": compared(table),
        "heat": heat_map(lines),
        "sections": numbered(sections),
        "documents": _documents(run),
        "selects": SELECTS,
        "facets": contents.facets(SELECTS),
        "css": Markup(asset("page.css") + asset("charts.css")),
        **script_of("list.js", "links.js", "page.js", "charts.js"),
    }
    cards = environment.get_template("cards.html").render(**body)
    return environment.get_template("training.html").render(
        **body, cards=Markup(cards), pictures=Markup(json_block(store.urls)), charts=Markup(json_block(plain(sections)))
    )


def _lines(run: Path) -> list[dict[str, Any]]:
    """What was measured; nothing yet where the run has just begun."""
    path = run / METRICS
    lines = list(iter_jsonl(path, ours=True)) if path.exists() else []
    if any("step" not in line for line in lines):
        raise UserError(f"{path}: a line names no step, so these are not the metrics of a training run")
    return lines


def _alarms(run: Path) -> list[dict[str, Any]]:
    path = run / "alarms.jsonl"
    return list(iter_jsonl(path, ours=True)) if path.exists() else []


def _marks(alarms: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[float, str]]]:
    marks: dict[str, list[tuple[float, str]]] = {}
    for alarm in alarms:
        marks.setdefault(alarm["about"], []).append((float(alarm["step"]), alarm["message"]))
    return marks


def _progress(run: Path, lines: Sequence[Mapping[str, Any]]) -> str:
    """How far the run is, in a few words."""
    summary = read_json(run / "summary.json") if (run / "summary.json").exists() else {}
    done = int(max((line["step"] for line in lines), default=0))
    total = summary.get("total_steps")
    ended = summary.get("ended") if summary.get("steps", done) == done else None  # it was resumed and goes on
    words = [f"{done} of {total} steps" if total else f"{done} steps", str(ended) if ended else "not ended yet"]
    return ", ".join(words)


def _documents(run: Path) -> list[tuple[str, str]]:
    """Configuration and summary as they lie in the folder."""
    names = (("Summary", "summary.json"), ("Configuration", "config.json"))
    return [(title, (run / name).read_text(encoding="utf-8")) for title, name in names if (run / name).exists()]


def compared(table: Mapping[str, Sequence[Point]]) -> Table | None:
    """The first and the last steps side by side; None before there are two."""
    rows = []
    for name, title in COMPARED.items():
        values = [y for _, y in table.get(name, ()) if math.isfinite(y)]
        if len(values) >= 2:
            before, after = window(values, last=False), window(values, last=True)
            rows.append((title, f"{before:.3g}", f"{after:.3g}", f"{after - before:+.3g}"))
    return Table("First and last steps", ("mean of", "first", "last", "change"), tuple(rows)) if rows else None


def heat_map(lines: Sequence[Mapping[str, Any]]) -> HeatMap | None:
    """Use of tools by kind before and after; None where the run counted none."""
    pairs = {tuple(name.removeprefix(CELL).rsplit("/", 1)) for line in lines for name in line if name.startswith(CELL)}
    if not pairs:
        return None
    kinds = tuple(sorted({kind for kind, _ in pairs}))
    tools = tuple(sorted({tool for _, tool in pairs}))
    cells = {}
    for kind in kinds:
        played = [line for line in lines if f"success/{kind}" in line or any(_is_of(name, kind) for name in line)]
        for tool in tools:
            values = [float(line.get(f"{CELL}{kind}/{tool}", 0.0)) for line in played]
            cells[kind, tool] = Cell(window(values, last=False), window(values, last=True))
    return HeatMap(kinds, tools, cells)


def _is_of(name: str, kind: str) -> bool:
    return name.startswith(f"{CELL}{kind}/")


def read_steps(run: Path) -> tuple[StepCard, ...]:
    """Episodes of a few recorded steps, from RUN/rollouts/step-000011/{samples,trajectories,rows}.jsonl.

    Folders count the steps done before, curves those done after: step-000011 holds the episodes of step 12.
    """
    folders = sorted((run / "rollouts").glob("step-*")) if (run / "rollouts").is_dir() else []
    found: list[StepCard] = []
    for folder in spread(folders, STEPS):
        found += _cards(folder, int(folder.name.removeprefix("step-")) + 1, len(found))
    return tuple(found)


def _cards(folder: Path, step: int, before: int) -> list[StepCard]:
    samples = {sample.id: sample for sample in read_records(folder / "samples.jsonl", Sample)}
    rows = list(read_records(folder / "rows.jsonl", EvalRow))
    played = list(read_records(folder / "trajectories.jsonl", Trajectory))
    if len(rows) != len(played) or any(trajectory.sample_id not in samples for trajectory in played):
        raise UserError(f"{folder}: its files are not of the same episodes; remove this folder")
    shown = set(spread(list(samples), GROUPS))
    pairs = [(t, row) for t, row in zip(played, rows, strict=True) if t.sample_id in shown]
    return [StepCard(number, t, samples[t.sample_id], row, step) for number, (t, row) in enumerate(pairs, before + 1)]


def spread(items: Sequence[T], count: int) -> list[T]:
    """At most `count` of them at even distances, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[round(i * (len(items) - 1) / (count - 1))] for i in range(count)]
