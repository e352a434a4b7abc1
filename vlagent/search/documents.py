"""Files to documents: one entry point, a reader a format (readers.py), and the title that a person would give."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vlagent.search import readers
from vlagent.search.passages import Document
from vlagent.search.walk import shown

READERS: dict[str, readers.Reader] = {
    **dict.fromkeys((".txt", ".text", ".log", ".tex", ".org", ".adoc", ".asciidoc", ".srt", ".vtt"), readers.read_text),
    **dict.fromkeys((".md", ".markdown", ".mdx", ".rst"), readers.read_markdown),
    **dict.fromkeys((".html", ".htm", ".xhtml"), readers.read_html),
    ".pdf": readers.read_pdf,
    ".docx": readers.read_docx,
    **dict.fromkeys((".csv", ".tsv"), readers.read_table),
    **dict.fromkeys((".jsonl", ".ndjson"), readers.read_corpus),
}
"""Suffix (that of the file inside, for `.gz`) -> reader."""

_CONVENTIONAL = """readme copyright changelog changes news license licence copying authors todo faq install history
index notice contributing credits thanks bugs upgrading overview manual notes release_notes"""
CONVENTIONAL = frozenset(_CONVENTIONAL.split())
"""Names that say what a file is but not what it is about: always text, and titled with their folder's name."""


def is_document(path: str) -> bool:
    """Whether a file of this name is read at all."""
    return _reader(path) is not None


def read_documents(path: str, limit_bytes: int, note: Callable[[str], None]) -> Iterator[Document]:
    """The documents of one file, read lazily.

    `note` is told what had to be left out (a broken page, a bad line). Raises `readers.Unreadable` with the reason
    when nothing can be read, also while the sections of a document are read.
    """
    reader = _reader(path)
    if reader is None:
        raise readers.Unreadable("not a kind of document that is read")
    return reader(path, readers.Reading(title=file_title(path), limit_bytes=limit_bytes, note=note))


def file_title(path: str) -> str:
    """A title from the name alone: the stem, with its folder where the stem is a conventional one."""
    name, parent = shown(Path(path).name), shown(Path(path).parent.name)
    stem = name.split(".")[0] if _stem(path) in CONVENTIONAL else Path(_without_gz(name)).stem
    readable = re.sub(r"[_\s]+", " ", stem).strip() or name
    return f"{parent} {readable}" if _stem(path) in CONVENTIONAL and parent else readable


def _reader(path: str) -> readers.Reader | None:
    suffix = Path(_without_gz(path)).suffix.lower()
    if suffix in READERS:
        return READERS[suffix]
    return readers.read_text if not suffix or _stem(path) in CONVENTIONAL else None


def _without_gz(path: str) -> str:
    return path[:-3] if path.lower().endswith(".gz") else path


def _stem(path: str) -> str:
    return Path(path).name.split(".")[0].lower()
