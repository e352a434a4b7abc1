"""The page of a run: one self-contained HTML file that works from file:// and asks nothing of any network."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vlagent.agent.parse import FREE
from vlagent.files import write_atomic
from vlagent.report import plots
from vlagent.report.cards import RunContents, is_crop, last_lines, read_run
from vlagent.report.pictures import PictureStore
from vlagent.report.summary import read_summary, summary_tables
from vlagent.types import Source, Turn

OUTCOMES = {
    "right": "Right",
    "wrong": "Wrong",
    "unscored": "Unscored",
    "failed": "Failed",
    "not_counted": "Not counted",
}
LIMIT = 500
"""Trajectories of a page in one file."""
SELECTS = (("tools", "Tool"), ("stop", "Stop reason"), ("suite", "Suite"))
"""Filters in which one value is picked, and what they are called."""


def write_report(run: Path) -> Path:
    """Write `report.html` into a run folder (of an evaluation or of `ask`) and return its path.

    A run of more than `LIMIT` trajectories gets a folder, `report/index.html`. Raises `UserError` where the folder
    is no run. All text of models and pages is escaped, and the page's content policy lets no script but its own run.
    """
    lines = last_lines(run)
    if len(lines) > LIMIT:
        from vlagent.report.big import write_folder

        return write_folder(run, lines)
    contents = read_run(run)
    path = run / "report.html"
    write_atomic(path, render_page(contents))
    return path


def render_page(contents: RunContents) -> str:
    """The page as text."""
    store = PictureStore(contents.folder, _side(len(contents.cards)))
    environment = make_environment(store)
    body = {
        "contents": contents,
        "title": _title(contents),
        "tables": summary_tables(contents.summary),
        "plots": plots_of(contents.summary),
        "selects": SELECTS,
        "facets": contents.facets(SELECTS),
        "css": Markup(asset("page.css")),
        **script_of("list.js", "links.js", "page.js"),
    }
    # the pictures are known only once the cards are rendered: they stand in a block after them
    cards = environment.get_template("cards.html").render(**body)
    return environment.get_template("page.html").render(
        **body, cards=Markup(cards), pictures=Markup(json_block(store.urls))
    )


def make_environment(store: PictureStore) -> Environment:
    """The templates, with what cards are drawn by."""
    environment = Environment(
        loader=PackageLoader("vlagent.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals.update(
        picture_key=store.key, link_of=link_of, is_crop=is_crop, pretty=_pretty, outcomes=OUTCOMES, free=FREE
    )
    return environment


def script_of(*names: str) -> dict[str, str]:
    """The only script that a page's content policy lets run, made of the theme's and of these files, and its hash."""
    script = "".join(asset(name) for name in ("theme.js", *names))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_hash": digest}


def plots_of(value: dict[str, Any]) -> list[Markup]:
    """Scores and tool use by data set; none where there is nothing to compare."""
    summary = read_summary(value)
    if summary is None:
        return []
    named = {summary.model or "model": summary}
    several = [plots.scores(named)] if len(summary.suites) > 1 else []
    return [plot for plot in (*several, plots.tool_use(named)) if plot is not None]


def _side(cards: int) -> int:
    """Smaller thumbnails for longer pages: about 10 MB at a few hundred trajectories."""
    return 1280 if cards <= 20 else 640 if cards <= 150 else 448


def _title(contents: RunContents) -> str:
    if len(contents.cards) == 1:
        return contents.cards[0].question.strip()[:120] or contents.folder.name
    return contents.folder.resolve().name


def asset(name: str) -> str:
    """A file of the templates as text."""
    return (files("vlagent.report") / "templates" / name).read_text(encoding="utf-8")


def json_block(value: Any) -> str:
    """JSON that cannot end its script element."""
    return json.dumps(value).replace("<", "\\u003c")


def _pretty(turn: Turn) -> str:
    """The arguments of a call, a line each."""
    assert turn.call
    return "\n".join(f"{k}: {json.dumps(v, ensure_ascii=False)}" for k, v in turn.call.arguments.items())


def link_of(source: Source) -> str | None:
    """Where a source can be opened; only web pages and local files, never a script."""
    if source.url and source.url.lower().startswith(("http://", "https://")):
        return source.url
    if source.file and Path(source.file).is_absolute():
        return Path(source.file).as_uri() + (f"#page={source.page}" if source.page else "")
    return None
