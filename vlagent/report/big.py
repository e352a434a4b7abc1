"""The page of a large run: a folder that opens at once, whatever its length, from file:// as well.

    report/index.html            the list, the filters, the tables
    report/data/items.js         what the list shows and the filters look at, a column a field
    report/data/chunk-N.js       articles, loaded when one of them is opened
    report/pictures/ab/KEY.jpg   thumbnails

Data comes as scripts, because a page from file:// may load these and may not read files.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.report.cards import Card, iter_cards, read_head
from vlagent.report.page import OUTCOMES, SELECTS, asset, make_environment, plots_of, script_of
from vlagent.report.pictures import FOLDER, PictureFolder
from vlagent.report.summary import summary_tables

CHUNK = 40
"""Articles of one file."""
SIDE = 448
"""Longest side of a thumbnail in pixels."""
WORDS = 600
"""Characters of one item that the search looks in."""
MARKER = "index.html"


@dataclass
class _Columns:
    """What the list and the filters need, a list a field; repeated texts are numbers into `names`."""

    question: list[str] = field(default_factory=list)
    small: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    coded: dict[str, list[int]] = field(default_factory=dict)
    names: dict[str, dict[str, int]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names["outcome"] = {name: number for number, name in enumerate(OUTCOMES)}

    def add(self, card: Card) -> None:
        """One item."""
        t = card.trajectory
        rollout = f" · rollout {t.rollout}" if t.rollout else ""
        turns = "1 turn" if len(t.turns) == 1 else f"{len(t.turns)} turns"
        self.question.append(_short(card.question, 110))
        self.small.append(f"{t.sample_id}{rollout} · {turns} · {t.stop}")
        self.words.append(_words(card))
        for name in ("outcome", *(name for name, _ in SELECTS)):
            values = [card.outcome] if name == "outcome" else [*card.facet(name)]
            self._code(name, "\n".join(values) or "-")
            self.counts.setdefault(name, Counter()).update(values)

    def _code(self, name: str, value: str) -> None:
        known = self.names.setdefault(name, {})
        self.coded.setdefault(name, []).append(known.setdefault(value, len(known)))

    def as_json(self) -> str:
        """For the page's script."""
        table = {
            "total": len(self.question),
            "chunk": CHUNK,
            "names": {name: list(values) for name, values in self.names.items()},
            "labels": list(OUTCOMES.values()),
            "question": self.question,
            "small": self.small,
            "words": self.words,
            **self.coded,
        }
        return json.dumps(table, ensure_ascii=False, separators=(",", ":"))


def write_folder(run: Path, lines: Sequence[int]) -> Path:
    """Write `report/` into a run folder and return the path of its page; `lines` are those of `last_lines`.

    What an earlier report left there is replaced. Raises `UserError` where `report` is something else.
    """
    folder = run / FOLDER
    _empty(folder)
    store = PictureFolder(run, SIDE)
    columns, article = _Columns(), make_environment(store).get_template("cards.html")
    for number, cards in enumerate(_chunks(iter_cards(run, lines))):
        for card in cards:
            columns.add(card)
        _write_script(folder / "data" / f"chunk-{number}.js", "chunk", number, [_article(article, c) for c in cards])
    _write_script(folder / "data" / "items.js", "items", columns.as_json())
    write_atomic(folder / MARKER, _page(run, columns, store))
    return folder / MARKER


def _empty(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / "data").is_dir()):
        raise UserError(f"{folder}: this is no report of ours; move it away")
    shutil.rmtree(folder)


def _chunks(cards: Iterable[Card]) -> Iterator[list[Card]]:
    rest = iter(cards)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _article(template: Template, card: Card) -> str:
    return template.render(contents={"cards": [card]}).strip()


def _write_script(path: Path, function: str, *arguments: Any) -> None:
    """A call of one of the page's two functions; U+2028 and U+2029 end lines in older scripts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    given = ",".join(json.dumps(each, ensure_ascii=False) for each in arguments)
    text = f"vlagent.{function}({given});\n".replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    path.write_bytes(text.encode("utf-8", "replace"))


def _page(run: Path, columns: _Columns, store: PictureFolder) -> str:
    head = read_head(run)
    return (
        make_environment(store)
        .get_template("big.html")
        .render(
            contents=head,
            total=len(columns.question),
            title=run.resolve().name,
            tables=summary_tables(head.summary),
            plots=plots_of(head.summary),
            selects=SELECTS,
            find_hint="Search questions, answers, calls …  ( / )",
            facets={name: dict(counts.most_common()) for name, counts in columns.counts.items()},
            css=Markup(asset("page.css")),
            **script_of("list.js", "big.js"),
        )
    )


def _words(card: Card) -> str:
    """What the search looks in: identity, question, answers and the arguments of calls, lower case, cut."""
    calls = [str(value) for turn in card.trajectory.turns if turn.call for value in turn.call.arguments.values()]
    return _short(" ".join([*card.names, *calls]), WORDS).lower()


def _short(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
