"""One reader a format. Whatever is wrong with a file is either noted (a part) or `Unreadable` (all of it)."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from vlagent.errors import VlagentError
from vlagent.search.passages import Document, Section, clean


class Unreadable(VlagentError):
    """A file that cannot be read; the message is the reason, for a list."""


@dataclass(frozen=True)
class Reading:
    """What a reader is told beside the path."""

    title: str
    """From the file's name; used where the document has none of its own."""
    limit_bytes: int
    """The largest file, after decompression, that is read into memory."""
    note: Callable[[str], None]
    """Told about parts that had to be left out."""


Reader = Callable[[str, Reading], Iterator[Document]]

PARSER_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    NotImplementedError,
    OSError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)
"""What third-party parsers are known to raise on damaged bytes."""


def read_text(path: str, reading: Reading) -> Iterator[Document]:
    """Plain text."""
    text = _decode(_load(path, reading))
    yield Document(reading.title, [Section(text)])


def read_markdown(path: str, reading: Reading) -> Iterator[Document]:
    """Markdown and reStructuredText: the title is the first heading."""
    text = _decode(_load(path, reading))
    front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    named = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", front[1], re.MULTILINE) if front else None
    body = text[front.end() :] if front else text
    title = named[1] if named else _first_heading(body)
    yield Document(title or reading.title, [Section(body)])


def read_html(path: str, reading: Reading) -> Iterator[Document]:
    """A web page: its main text, or all its visible text where the main text is not found."""
    from vlagent.search.html import page_text

    title, text = page_text(_decode(_load(path, reading), html=True))
    yield Document(title or reading.title, [Section(text)])


def read_pdf(path: str, reading: Reading) -> Iterator[Document]:
    """A PDF, a section a page."""
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    try:
        pdf = PdfReader(io.BytesIO(_load(path, reading)))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise Unreadable("encrypted: a password is needed")
        pages, title = len(pdf.pages), str(getattr(pdf.metadata, "title", None) or "").strip()
    except (PyPdfError, DependencyError, *PARSER_FAILURES) as error:
        raise Unreadable(f"not a readable PDF ({_reason(error)})") from None
    yield Document(_sane_title(title) or reading.title, _pdf_sections(pdf, pages, reading))


def _pdf_sections(pdf: Any, pages: int, reading: Reading) -> Iterator[Section]:
    from pypdf.errors import DependencyError, PyPdfError

    for number in range(1, pages + 1):
        try:
            text = pdf.pages[number - 1].extract_text()
        except (PyPdfError, DependencyError, *PARSER_FAILURES) as error:
            reading.note(f"page {number} cannot be read ({_reason(error)})")
            continue
        yield Section(re.sub(r"(\w)[-\u00ad]\n(?=[a-zà-ÿ])", r"\1", text), page=number)


def read_docx(path: str, reading: Reading) -> Iterator[Document]:
    """A Word document: paragraphs and tables in reading order."""
    import docx
    from docx.table import Table

    data = _load(path, reading)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as parts:
            if sum(part.file_size for part in parts.infolist()) > 10 * reading.limit_bytes:
                raise Unreadable(f"unpacks to more than {10 * reading.limit_bytes / 1e6:.0f} MB")
        document = docx.Document(io.BytesIO(data))
        blocks = [
            "\n".join(" | ".join(cell.text.strip() for cell in row.cells) for row in block.rows)
            if isinstance(block, Table)
            else block.text
            for block in document.iter_inner_content()
        ]
        title = document.core_properties.title or _styled_title(document)
    except PARSER_FAILURES as error:
        raise Unreadable(f"not a readable DOCX ({_reason(error)})") from None
    yield Document(_sane_title(title) or reading.title, [Section("\n\n".join(filter(str.strip, blocks)))])


def _styled_title(document: Any) -> str:
    styled = (p.text for p in document.paragraphs if p.style and p.style.name in ("Title", "Heading 1"))
    return next(filter(str.strip, styled), "")


def read_table(path: str, reading: Reading) -> Iterator[Document]:
    """CSV and TSV: a line a row, each value with its column's name."""
    text = _decode(_load(path, reading))
    tab = ".tsv" in Path(path).name.lower()
    rows = _rows(text, "\t" if tab else _delimiter(text), reading)
    header = next(rows, [])
    yield Document(reading.title, _row_sections(header, rows))


def _delimiter(text: str) -> str:
    line = text.lstrip("\ufeff\n").split("\n", 1)[0]
    return max(",;\t|", key=line.count)


def _rows(text: str, delimiter: str, reading: Reading) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 30)
    rows = csv.reader(io.StringIO(text.replace("\0", "")), delimiter=delimiter)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reading.note(f"row {rows.line_num} cannot be read ({error})")
            continue
        if any(cell.strip() for cell in row):
            yield [cell.strip() for cell in row]


def _row_sections(header: list[str], rows: Iterator[list[str]]) -> Iterator[Section]:
    """Groups of rows of some 800 letters, so that a found passage is about few things."""
    lines: list[str] = []
    for row in rows:
        names = header + [f"column {i + 1}" for i in range(len(header), len(row))]
        lines.append("; ".join(f"{name}: {cell}" for name, cell in zip(names, row, strict=False) if cell))
        if sum(map(len, lines)) > 800:
            yield Section("\n\n".join(lines))
            lines = []
    if lines or header:
        yield Section("\n\n".join(lines) or "; ".join(header))


def read_corpus(path: str, reading: Reading) -> Iterator[Document]:
    """JSON lines in the Search-R1 form {"id", "contents": "Title\\nbody"}, or {"title", "text", "url"?}; streamed."""
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip(b" \t\r\n\xef\xbb\xbf"):
                    document = _record(line, number, reading)
                    if document:
                        yield document
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(_reason(error)) from None


def _record(line: bytes, number: int, reading: Reading) -> Document | None:
    try:
        row = json.loads(line.decode("utf-8-sig"))
        title, body = _title_and_body(row)
    except (ValueError, RecursionError):
        reading.note(f"line {number} is not JSON")
        return None
    except (TypeError, KeyError, AttributeError):
        reading.note(f'line {number} has neither "contents" nor "text"')
        return None
    name = str(row.get("id", number))
    url = row.get("url")
    text = body or title
    return Document(
        title or f"{reading.title} {name}", [Section(text)], id=name, url=str(url) if url else None, whole=True
    )


def _title_and_body(row: Any) -> tuple[str, str]:
    if isinstance(row.get("contents"), str):
        title, _, body = row["contents"].strip().partition("\n")
        named = str(row.get("title") or title)
        return named.strip().strip('"').strip(), body.strip() or title.strip()
    text = row["text"] if isinstance(row.get("text"), str) else row["content"]
    return str(row.get("title") or ""), cast(str, text + "")


def _open(path: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path) if path.lower().endswith(".gz") else Path(path).open("rb"))


def _load(path: str, reading: Reading) -> bytes:
    try:
        with _open(path) as file:
            data = file.read(reading.limit_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(_reason(error)) from None
    if len(data) > reading.limit_bytes:
        raise Unreadable(f"larger than {reading.limit_bytes / 1e6:g} MB (raise the limit with --max-mb)")
    return data


def _decode(data: bytes, *, html: bool = False) -> str:
    """Byte order mark, declared charset (HTML), UTF-8, then detection."""
    for mark, name in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(name, "replace")
    declared = re.search(rb"<meta[^>]+charset=[\"']?([\w-]+)", data[:4096], re.IGNORECASE) if html else None
    for name in ([declared[1].decode("ascii")] if declared else []) + ["utf-8"]:
        try:
            return data.decode(name)
        except (UnicodeDecodeError, LookupError):
            continue
    if b"\0" in data[:65536]:
        raise Unreadable("binary, not text")
    return _detect(data)


def _detect(data: bytes) -> str:
    from charset_normalizer import from_bytes

    guesses = from_bytes(data[:65536])
    best = guesses.best()
    if best is None:
        raise Unreadable("its character set is unknown")
    western = next((guess for guess in guesses if guess.encoding == "cp1252"), None)
    as_good = western and western.chaos <= best.chaos + 0.01 and western.coherence >= best.coherence - 0.2
    return data.decode("cp1252" if as_good else best.encoding, "replace")


def _first_heading(text: str) -> str:
    """`# Title`, or a line underlined with = or - or over- and underlined (reStructuredText)."""
    found = re.search(
        r"^#{1,3}[ \t]+(.+?)[ \t#]*$|^(\S.{0,150})\n(?:={3,}|-{3,}|\*{3,}|#{3,}|~{3,})[ \t]*$",
        text[:20000],
        re.MULTILINE,
    )
    if not found:
        return ""
    bare = re.sub(r"!?\[([^\]]*)\]\([^)]*\)|<[^>]+>|[`*]", r"\1", found[1] or found[2])
    return _sane_title(bare)


def _sane_title(title: str) -> str:
    """A title as printed, or nothing where a program has left its own ("untitled", "Microsoft Word - a.doc")."""
    bare = re.sub(r"^Microsoft Word - ", "", " ".join(clean(title).split()))
    return "" if bare.lower() in ("", "untitled", "none", "word document") or not re.search(r"\w", bare) else bare


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())[:120] or type(error).__name__
