"""The page that holds runs beside one another: scores, paired tests, tool use, and each question's episodes in columns.

One self-contained file. Of many questions those that changed come first, and `LIMIT` have their episodes on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from vlagent.bench.compare import Comparison, Pairing, compare
from vlagent.bench.summary import Summary, summarise
from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.report import plots
from vlagent.report.cards import Card, RunContents, read_run
from vlagent.report.page import asset, json_block, make_environment, script_of
from vlagent.report.pictures import PictureStore
from vlagent.report.summary import Table, settings_of
from vlagent.types import Outcome

LIMIT = 500
"""Questions whose episodes are on the page."""
SIDE = 512
CHANGES = {"worse": "worse", "better": "better", "mixed": "better and worse", "same": "same", "unpaired": "not paired"}
"""Of a question: in the later runs against the first."""

Key = tuple[str, str]
"""(suite, sample id within it)."""


@dataclass(frozen=True)
class Column:
    """One run of the comparison."""

    name: str
    summary: Summary
    cards: Mapping[Key, tuple[Card, ...]]
    """The rollouts of each question."""


@dataclass(frozen=True)
class Question:
    """One question in all runs."""

    number: int
    key: Key
    text: str
    change: str
    outcomes: tuple[tuple[str, str], ...]
    """For each run: outcome, and what is said of it (`right`, `2 of 4 right`)."""
    articles: tuple[str, ...]
    """For each run, as HTML; empty where it is not on the page."""
    words: str


def write_comparison(runs: Sequence[Path], path: Path, comparisons: Sequence[Comparison] | None = None) -> Path:
    """Write the page; `comparisons` are those of each later run with the first, made here where they are not given.

    Raises `UserError` where a folder is no evaluation, or two runs share no question.
    """
    if len(runs) < 2:
        raise UserError("compare: two runs at least")
    comparisons = comparisons or [compare(runs[0], other) for other in runs[1:]]
    columns = [_column(run, name) for run, name in zip(runs, _names(runs), strict=True)]
    write_atomic(path, _render(runs[0], columns, comparisons))
    return path


def _names(runs: Sequence[Path]) -> list[str]:
    """The folders' own names; with their parents' where these are not unique."""
    short = [run.resolve().name for run in runs]
    return short if len(set(short)) == len(short) else [str(run) for run in runs]


def _column(run: Path, name: str) -> Column:
    contents: RunContents = read_run(run)
    cards: dict[Key, tuple[Card, ...]] = {}
    for card in contents.cards:
        key = (card.suite, card.trajectory.sample_id.removeprefix(f"{card.suite}/"))
        cards[key] = (*cards.get(key, ()), card)
    return Column(name, summarise(run), cards)


def _render(first: Path, columns: Sequence[Column], comparisons: Sequence[Comparison]) -> str:
    store = PictureStore(first, SIDE)
    environment = make_environment(store)
    questions = _questions(columns, comparisons, environment.get_template("cards.html"))
    named = {column.name: column.summary for column in columns}
    body: dict[str, Any] = {
        "title": " and ".join(named),
        "names": list(named),
        "tables": [_scores(named), _paired(columns, comparisons)],
        "folded": [_differences(named)],
        "plots": [plot for plot in (plots.scores(named), plots.tool_use(named)) if plot is not None],
        "questions": questions,
        "changes": CHANGES,
        "counts": Counter(question.change for question in questions),
        "suites": Counter(question.key[0] for question in questions),
        "limit": LIMIT,
        "css": Markup(asset("page.css") + asset("comparison.css")),
        **script_of("list.js", "links.js", "comparison.js"),
    }
    return environment.get_template("comparison.html").render(**body, pictures=Markup(json_block(store.urls)))


def _questions(columns: Sequence[Column], comparisons: Sequence[Comparison], article: Template) -> list[Question]:
    keys = list(dict.fromkeys(key for column in columns for key in column.cards))
    change = _changes(keys, comparisons)
    ordered = sorted(keys, key=lambda key: list(CHANGES).index(change[key]))
    return [_question(n, key, change[key], columns, article) for n, key in enumerate(ordered, 1)]


def _changes(keys: Sequence[Key], comparisons: Sequence[Comparison]) -> dict[Key, str]:
    """How each question fares in the later runs against the first."""
    moved: dict[Key, set[str]] = {key: set() for key in keys}
    unpaired = set(keys)
    for comparison in comparisons:
        unpaired &= {(each.suite, each.sample_id) for each in comparison.unpaired}
        for flip in comparison.flips:
            moved[flip.suite, flip.sample_id].add("better" if flip.second > flip.first else "worse")
    named = {frozenset({"better"}): "better", frozenset({"worse"}): "worse", frozenset(): "same"}
    return {
        key: "unpaired" if key in unpaired else named.get(frozenset(directions), "mixed")
        for key, directions in moved.items()
    }


def _question(number: int, key: Key, change: str, columns: Sequence[Column], article: Template) -> Question:
    found = [column.cards.get(key, ()) for column in columns]
    shown = next(cards[0] for cards in found if cards)
    articles: list[str] = []
    for place, cards in enumerate(found if number <= LIMIT else ()):
        own = [replace(card, number=number * 100 + place * 10) for card in cards[:1]]
        articles.append(article.render(contents={"cards": own}).strip())
    return Question(
        number=number,
        key=key,
        text=shown.question.strip(),
        change=change,
        outcomes=tuple(_outcome(cards) for cards in found),
        articles=tuple(articles),
        words=" ".join([*key, shown.question, *(c[0].trajectory.answer or "" for c in found if c)]).lower(),
    )


def _outcome(cards: Sequence[Card]) -> tuple[str, str]:
    """The colour of a run's dot, and its words."""
    if not cards:
        return str(Outcome.NOT_COUNTED), "not in this run"
    outcomes = Counter(card.outcome for card in cards)
    if len(cards) == 1:
        return cards[0].outcome, cards[0].outcome.replace("_", " ")
    return outcomes.most_common(1)[0][0], f"{outcomes[Outcome.RIGHT]} of {len(cards)} right"


def _scores(named: Mapping[str, Summary]) -> Table:
    """A line a data set, a column a run."""
    suites = dict.fromkeys(suite for summary in named.values() for suite in summary.suites)
    rows = [(suite, *(_score(summary, suite) for summary in named.values())) for suite in suites]
    if len(suites) > 1:
        means = ["" if s.macro_average is None else f"{100 * s.macro_average:.1f} %" for s in named.values()]
        rows.append(("mean of the data sets", *means))
    lost = [f"{s.counts.unscored} unscored, {s.counts.failed} failed" for s in named.values()]
    rows.append(("of all questions", *lost))
    return Table("Scores", ("", *named), tuple(rows))


def _score(summary: Summary, suite: str) -> str:
    counts = summary.suites[suite].counts if suite in summary.suites else None
    if counts is None or counts.accuracy is None:
        return "not scored" if counts else ""
    error = "" if counts.standard_error is None else f" ± {100 * counts.standard_error:.1f}"
    return f"{100 * counts.accuracy:.1f} %{error} ({counts.right}/{counts.scored})"


def _paired(columns: Sequence[Column], comparisons: Sequence[Comparison]) -> Table:
    rows = []
    for column, comparison in zip(columns[1:], comparisons, strict=True):
        pairings = {**comparison.suites, **({"all": comparison.all} if len(comparison.suites) > 1 else {})}
        rows += [(f"{column.name}: {suite}", *_pairing_cells(pairing)) for suite, pairing in pairings.items()]
    head = (f"against {columns[0].name}", "change", "95 %", "p", "better", "worse", "same", "questions")
    return Table("Paired, question by question", head, tuple(rows))


def _pairing_cells(pairing: Pairing) -> tuple[str, ...]:
    interval = pairing.interval
    return (
        f"{100 * (pairing.difference or 0):+.1f}",
        f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}" if interval else "",
        f"{pairing.p_value:.3f}" if pairing.p_value >= 0.001 else "<0.001",
        *(str(number) for number in (pairing.better, pairing.worse, pairing.same, pairing.pairs)),
    )


def _differences(named: Mapping[str, Summary]) -> Table:
    """Settings that are not the same in all runs: what may have made the difference."""
    each = {name: settings_of(summary) for name, summary in named.items()}
    keys = dict.fromkeys(key for settings in each.values() for key in settings)
    rows = []
    for key in keys:
        values = [settings.get(key, "") for settings in each.values()]
        if len(set(values)) > 1 and key != "notes":
            rows.append((key, *values))
    return Table("What differs in how they were run", ("", *named), tuple(rows), folded=True)
