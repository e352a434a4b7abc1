"""The tables on top of a page, read from `summary.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A caption, column names and rows of text."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summary_tables(summary: dict[str, Any]) -> list[Table]:
    """Whatever of a summary is a table."""
    return []
