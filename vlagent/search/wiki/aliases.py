"""Redirects as other names: a query that holds one is also asked for the title that it leads to."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from vlagent.errors import PermanentError
from vlagent.search.words import fold

NAME = "wiki.sqlite"
LONGEST = 6
"""Words of a name that is looked up."""
MAX_WORDS = 64
"""Words of a query that are looked at."""


class Aliases:
    """The redirects of a dump, by folded name."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def meant(self, query: str) -> list[str]:
        """The titles that the redirects in a query lead to, longest name first, each word used once."""
        words = fold(query).replace("?", " ").split()[:MAX_WORDS]
        names = {
            " ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, min(a + LONGEST, len(words)) + 1)
        }
        found = self._titles(names) if names else {}
        titles, rest = [], f" {' '.join(words)} "
        for name in sorted(found, key=lambda name: (-len(name), name)):
            if f" {name} " in rest:
                titles.append(found[name])
                rest = rest.replace(f" {name} ", " | ")
        return titles

    def _titles(self, names: Iterable[str]) -> dict[str, str]:
        given = sorted(names)
        marks = ", ".join("?" * len(given))
        try:
            with closing(_open(self._path)) as connection:
                rows = connection.execute(f"SELECT name, title FROM aliases WHERE name IN ({marks})", given)
                return dict(rows.fetchall())
        except sqlite3.Error as error:
            raise PermanentError("text index", f"{NAME}: {error}") from None


def open_aliases(folder: Path) -> Aliases | None:
    """The redirects of a search folder, if a dump has left any there."""
    path = folder / "wiki" / NAME
    return Aliases(path) if path.exists() else None


def alias_rows(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """(redirect, title) as they are stored; those that differ by case or accents only are needless."""
    rows = [(" ".join(fold(name).replace("?", " ").split()), title) for name, title in pairs]
    return [(name, title) for name, title in rows if name and name != " ".join(fold(title).split())]


def _open(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True, timeout=30)
