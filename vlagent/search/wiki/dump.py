"""Pages of a MediaWiki export (`*-pages-articles.xml.bz2`), streamed, from any place where reading has stopped.

Published dumps of the multistream kind consist of many bz2 streams of about a hundred whole pages; reading goes on at
the last of them. In a dump of one stream the pages that are done are unpacked again and passed over.
Layout: https://www.mediawiki.org/xml/export-0.11.xsd (older versions read the same).
"""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from lxml import etree  # type: ignore[import-untyped]

from vlagent.errors import UserError
from vlagent.search.walk import shown

READ = 1 << 17
"""Packed bytes that are read at once."""
UNPACKED = 1 << 22
"""Unpacked bytes that are looked at at once."""
TAGS = ("{*}siteinfo", "{*}page")


@dataclass(frozen=True)
class Place:
    """Where reading goes on: at this byte of the file, past so many pages."""

    offset: int = 0
    pages: int = 0


@dataclass(frozen=True)
class Page:
    """One page of the dump, its latest revision."""

    id: int
    title: str
    namespace: int
    text: str
    redirect: str | None = None
    model: str = "wikitext"


@dataclass(frozen=True)
class Site:
    """What the head of a dump says."""

    base: str = ""
    """The address of its main page."""
    media: tuple[str, ...] = ("file", "image", "category")
    """Names of the namespaces whose links show no text, folded."""

    def url(self, title: str) -> str | None:
        """The address of a page."""
        if not self.base:
            return None
        return self.base.rsplit("/", 1)[0] + "/" + quote(title.replace(" ", "_"), safe="/:(),'!*;@&=+$~")


@dataclass
class DumpReader:
    """Iterates over (page, the place after it). `packed_bytes` says how far it is in the file."""

    path: Path
    start: Place = Place()
    site: Site = field(default_factory=Site)
    """Filled in where reading begins at the head of the file."""
    packed_bytes: int = 0

    def __iter__(self) -> Iterator[tuple[Page, Place]]:
        """Raises UserError where the file is no dump, or is damaged or cut off."""
        parser = etree.XMLPullParser(events=("end",), tag=TAGS, huge_tree=True, resolve_entities=False)
        if self.start.offset:
            parser.feed(b"<mediawiki>")
        place, seen = Place(self.start.offset), False
        try:
            for data, boundary in _unpacked(self.path, self.start.offset, self._tell):
                parser.feed(data)
                for page in self._pages(parser):
                    seen = True
                    place = replace(place, pages=place.pages + 1)
                    if place.offset > self.start.offset or place.pages > self.start.pages:
                        yield page, place
                if boundary:
                    place = Place(boundary)
        except etree.XMLSyntaxError as error:
            raise UserError(f"{shown(self.path)}: not a MediaWiki export ({error.msg})") from None
        if not seen and not self.start.offset:
            raise UserError(f"{shown(self.path)}: holds no page of a MediaWiki export")

    def _tell(self, position: int) -> None:
        self.packed_bytes = position

    def _pages(self, parser: Any) -> Iterator[Page]:
        for _, element in parser.read_events():
            if etree.QName(element).localname == "siteinfo":
                self.site = _site(element)
            else:
                yield _page(element)
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]


def _unpacked(path: Path, offset: int, tell: Any) -> Iterator[tuple[bytes, int]]:
    """(unpacked bytes, offset of the next stream where one of whole pages ends here, else 0)."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            if path.suffix == ".bz2":
                yield from _streams(path, file, tell)
            else:
                while data := file.read(READ):
                    tell(file.tell())
                    yield data, 0
    except OSError as error:
        raise UserError(f"{shown(path)}: cannot be read ({error.strerror or error})") from None


def _streams(path: Path, file: BinaryIO, tell: Any) -> Iterator[tuple[bytes, int]]:
    unpacker, tail, waiting = bz2.BZ2Decompressor(), b"", b""
    while raw := waiting or file.read(READ):
        waiting = b""
        tell(file.tell())
        while raw or not (unpacker.needs_input or unpacker.eof):
            data = unpacker.decompress(raw, UNPACKED)
            raw, tail = b"", (tail + data)[-64:]
            if not unpacker.eof:
                yield data, 0
        if unpacker.eof:
            waiting = unpacker.unused_data
            whole = tail.rstrip().endswith((b"</page>", b"</siteinfo>"))
            yield data, file.tell() - len(waiting) if whole else 0
            unpacker = bz2.BZ2Decompressor()
    if tail and not tail.rstrip().endswith(b"</mediawiki>"):
        raise UserError(f"{shown(path)}: ends in the middle; download it again, what is done stays done")


def _page(element: Any) -> Page:
    redirect = element.find("{*}redirect")
    revision = element.findall("{*}revision")
    latest = revision[-1] if revision else element
    return Page(
        id=int(element.findtext("{*}id") or 0),
        title=(element.findtext("{*}title") or "").strip(),
        namespace=int(element.findtext("{*}ns") or 0),
        text=latest.findtext("{*}text") or "",
        redirect=redirect.get("title") if redirect is not None else None,
        model=latest.findtext("{*}model") or "wikitext",
    )


def _site(element: Any) -> Site:
    names = {"file", "image", "category"}
    for space in element.iterfind("{*}namespaces/{*}namespace"):
        if space.get("key") in ("6", "14") and space.text:
            names.add(space.text.strip().lower())
    return Site(element.findtext("{*}base") or "", tuple(sorted(names)))
