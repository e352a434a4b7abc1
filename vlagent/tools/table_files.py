"""The tables of a file, each as rows of cells with the header first. Ragged rows are filled up with empty cells."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlagent.errors import ServiceError

Rows = list[list[str]]

MAX_BYTES = 64 * 2**20
"""A bigger file is not read."""
MAX_PAGES = 50
"""Of a PDF whose page is not known."""
_MAX_SPAN = 100


def read_csv(path: Path, page: int | None = None) -> list[Rows]:  # noqa: ARG001 - all readers are called alike
    """The one table of a CSV or TSV file; the delimiter is found from the text."""
    text = _text(path)
    try:
        rows = _csv_rows(text, max(",;\t|", key=lambda delimiter: _fit(text[:20_000], delimiter)))
    except csv.Error as error:
        raise ServiceError("table", f"{path.name} cannot be read ({error})") from error
    return [_even(rows)] if rows else []


def _csv_rows(text: str, delimiter: str) -> Rows:
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if any(row)]


def _fit(text: str, delimiter: str) -> tuple[int, int]:
    """How many rows have the header's width, and that width, if this is the delimiter."""
    rows = _csv_rows(text, delimiter)[:50]
    width = len(rows[0]) if rows else 0
    return (sum(len(row) == width for row in rows), width) if width > 1 else (0, 0)


def read_html(path: Path, page: int | None = None) -> list[Rows]:  # noqa: ARG001
    """Every table of an HTML file that has at least two rows; cells that span are repeated."""
    from lxml import etree, html  # type: ignore[import-untyped]

    text = _text(path)
    if not text.strip():
        return []
    try:
        root = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise ServiceError("table", f"{path.name} cannot be read ({error})") from error
    found = [_html_rows(table) for table in root.iter("table")]
    return [_even(rows) for rows in found if len(rows) > 1]


def read_pdf(path: Path, page: int | None = None) -> list[Rows]:
    """The ruled tables of one page of a PDF, or of its first pages."""
    import pdfplumber
    from pdfminer.pdfexceptions import PDFException
    from pdfplumber.utils.exceptions import PdfminerException

    try:
        with pdfplumber.open(path) as pdf:
            pages = pdf.pages[page - 1 : page] if page else pdf.pages[:MAX_PAGES]
            found = [table for one in pages for table in one.extract_tables()]
    except FileNotFoundError:
        raise ServiceError("table", f"{path.name} is gone") from None
    except (OSError, ValueError, KeyError, TypeError, PDFException, PdfminerException) as error:
        raise ServiceError("table", f"{path.name} cannot be read ({type(error).__name__}: {error})") from error
    return [_even([[cell or "" for cell in row] for row in table]) for table in found if table]


READERS: dict[str, Callable[[Path, int | None], list[Rows]]] = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".html": read_html,
    ".htm": read_html,
    ".pdf": read_pdf,
}


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ServiceError("table", f"{path.name} is over {MAX_BYTES // 2**20} MB")
        data = path.read_bytes()
    except OSError as error:
        raise ServiceError("table", f"{path.name} cannot be read ({error.strerror})") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        from charset_normalizer import from_bytes

        best = from_bytes(data).best()
        return str(best) if best else data.decode("latin-1")


def _html_rows(table: Any) -> Rows:
    """Rows of this table only, not of tables inside its cells."""
    rows: Rows = []
    falling: dict[int, tuple[int, str]] = {}
    for row in table.iter("tr"):
        if next(row.iterancestors("table")) is not table:
            continue
        cells: list[str] = []
        for cell in row.iterchildren("td", "th"):
            _fall(cells, falling)
            text = " ".join(" ".join(cell.itertext()).split())
            for _ in range(_span(cell, "colspan")):
                if _span(cell, "rowspan") > 1:
                    falling[len(cells)] = (_span(cell, "rowspan") - 1, text)
                cells.append(text)
        _fall(cells, falling)
        if any(cells):
            rows.append(cells)
    return rows


def _fall(cells: list[str], falling: dict[int, tuple[int, str]]) -> None:
    """Fill the columns that a cell of an earlier row covers."""
    while len(cells) in falling:
        left, text = falling.pop(len(cells))
        if left > 1:
            falling[len(cells)] = (left - 1, text)
        cells.append(text)


def _span(cell: Any, name: str) -> int:
    value = cell.get(name, "1").strip()
    return min(max(int(value), 1), _MAX_SPAN) if value.isdecimal() else 1


def _even(rows: Rows) -> Rows:
    width = max(len(row) for row in rows)
    return [[*row, *[""] * (width - len(row))] for row in rows]
