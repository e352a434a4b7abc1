"""Open a table of a document that a search of this episode found: CSV, HTML or PDF."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from vlagent.errors import ToolInputError
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.tools.table_files import READERS, Rows
from vlagent.types import Hit

MAX_ROWS = 40
MAX_CHARACTERS = 6000


class TableArguments(Arguments):
    """Which table, and which of its rows."""

    source: int | str = Field(description="The number [n] of a search result that was shown, or its title.")
    table: int = Field(default=1, ge=1, description="Which table of the document, counted from 1.")
    contains: str = Field(default="", description="Keep only rows in which this text occurs.")


class Table:
    """Rows of a table as text, with the header first."""

    name: ClassVar[str] = "table"
    description: ClassVar[str] = "Read a table of a document (CSV, HTML, PDF) that a text search has found."
    arguments: ClassVar[type[Arguments]] = TableArguments

    async def run(self, arguments: TableArguments, context: ToolContext) -> ToolOutput:
        """Raises `ToolInputError` where there is no such result or table, `ServiceError` on a broken file."""
        hit = _chosen(arguments.source, context.hits)
        path = _file_of(hit)
        tables = await asyncio.to_thread(READERS[path.suffix.lower()], path, hit.source.page)
        if not tables:
            raise ToolInputError(f"{path.name} holds no table{_page(hit)}.")
        if arguments.table > len(tables):
            raise ToolInputError(f"table {arguments.table}: {path.name} has {len(tables)}, counted from 1.")
        rows = tables[arguments.table - 1]
        text = f"Table {arguments.table} of {len(tables)} in {hit.source.title}{_page(hit)}:\n"
        return ToolOutput(text=text + _layout(rows, arguments.contains), sources=(hit.source,))


def _chosen(source: int | str, hits: list[Hit]) -> Hit:
    if not hits:
        raise ToolInputError("no search result is open yet: search first, then name a result.")
    text = str(source).strip().strip("[]")
    if text.isdecimal():
        if 1 <= int(text) <= len(hits):
            return hits[int(text) - 1]
        raise ToolInputError(f"source {text}: results are numbered from 1 to {len(hits)}.")
    for hit in reversed(hits):
        if text.casefold() in (hit.source.title.casefold(), Path(hit.source.file or "").name.casefold()):
            return hit
    raise ToolInputError(f"source {text!r}: no result has this title; give its number, 1 to {len(hits)}.")


def _file_of(hit: Hit) -> Path:
    if hit.source.file is None:
        raise ToolInputError(f"{hit.source.title!r} is not a file; only tables of files can be read.")
    path = Path(hit.source.file)
    if path.suffix.lower() not in READERS:
        raise ToolInputError(f"{path.name} is no table document; {', '.join(READERS)} can be read.")
    return path


def _page(hit: Hit) -> str:
    return f" on page {hit.source.page}" if hit.source.page else ""


def _layout(rows: Rows, contains: str) -> str:
    header, body = rows[0], rows[1:]
    needle = contains.casefold().strip()
    kept = [row for row in body if any(needle in cell.casefold() for cell in row)] if needle else body
    if not kept:
        return f"{_line(header)}\n(none of {len(body)} rows contains {contains!r})"
    lines, size = [_line(header)], 0
    for row in kept[:MAX_ROWS]:
        size += len(_line(row))
        if size > MAX_CHARACTERS:
            break
        lines.append(_line(row))
    left = len(kept) - (len(lines) - 1)
    return "\n".join(lines) + (f"\n({left} more rows; use contains to narrow them down)" if left else "")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "/") for cell in cells) + " |"
