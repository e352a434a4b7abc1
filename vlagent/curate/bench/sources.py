"""Where pictures come from: lists, feeds (RSS 2.0, Atom, Media RSS), sitemaps with their image and news extensions,
and single pages. All of it is text of strangers: parsed without entities and without a network.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urljoin

from lxml import etree, html  # type: ignore[import-untyped]

from vlagent.errors import UserError

Kind = Literal["picture", "any"]
"""`any` is looked at: it may be a picture, a page, a feed or a sitemap."""
_RESERVED = re.compile(r"\b(?:noai|noimageai|noimageindex)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Lead:
    """An address that may hold a picture, with what is known of it."""

    address: str
    kind: Kind = "any"
    page: str = ""
    title: str = ""
    date: str = ""
    date_from: str = ""
    licence: str = ""
    licence_from: str = ""


@dataclass(frozen=True)
class PageFound:
    """What a page says of its main picture."""

    lead: Lead | None
    """None where it names none."""
    reserved: bool = False
    """The page asks that its pictures are not used for this (robots meta, TDM reservation protocol)."""


def parse_list(text: str, name: str) -> list[Lead]:
    """A file of addresses: one a line; or JSON lines, or a CSV or TSV with a header, with `url` and optionally
    `date`, `licence`, `title`, `page`. `#` begins a comment line. Raises `UserError`.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if lines and lines[0].lstrip().startswith("{"):
        return [_of_row(_json_row(line, name), name) for line in lines]
    if lines and re.search(r"(?:^|[,\t])\s*\"?url\"?\s*(?:[,\t]|$)", lines[0]):
        rows = csv.DictReader(io.StringIO("\n".join(lines)), delimiter="\t" if "\t" in lines[0] else ",")
        return [_of_row(row, name) for row in rows]
    return [Lead(line.strip()) for line in lines]


def _json_row(line: str, name: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise UserError(f"{name}: not JSON ({error}): {line[:60]!r}") from None
    if not isinstance(row, dict):
        raise UserError(f"{name}: an object with `url` is expected, this is {line[:60]!r}")
    return row


def _of_row(row: dict[str, Any], name: str) -> Lead:
    given = {key: str(value).strip() for key, value in row.items() if isinstance(key, str) and value is not None}
    if not given.get("url"):
        raise UserError(f"{name}: a row without `url`: {str(row)[:80]}")
    licence = given.get("licence") or given.get("license", "")
    day = iso_date(given.get("date", ""))
    if given.get("date") and not day:
        raise UserError(f"{name}: date {given['date']!r}: write it as 2025-01-31")
    return Lead(
        given["url"],
        page=given.get("page", ""),
        title=given.get("title", ""),
        date=day,
        date_from="list" if day else "",
        licence=licence,
        licence_from="list" if licence else "",
    )


def parse_xml(data: bytes, base: str) -> list[Lead] | None:
    """The leads of a feed or a sitemap; None where it is neither."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if root is None:
        return None
    readers = {"rss": _rss, "RDF": _rss, "feed": _atom, "urlset": _urlset, "sitemapindex": _index}
    reader = readers.get(_name(root))
    leads = [_absolute(lead, base) for lead in reader(root)] if reader else None
    return None if leads is None else [lead for lead in leads if lead.address]


def _rss(root: Any) -> Iterator[Lead]:
    whole = _licence(root if _name(root) != "rss" else _first(root, "channel"))
    for item in _all(root, "item"):
        yield from _entry(item, _text(item, "link"), _text(item, "pubDate") or _text(item, "date"), whole)


def _atom(root: Any) -> Iterator[Lead]:
    whole = _licence(root)
    for entry in _all(root, "entry"):
        links = [child for child in entry if _name(child) == "link"]
        page = next((link.get("href", "") for link in links if link.get("rel", "alternate") == "alternate"), "")
        yield from _entry(entry, page, _text(entry, "published") or _text(entry, "updated"), whole)


def _entry(item: Any, page: str, day: str, whole: str) -> Iterator[Lead]:
    """The pictures that an entry names, else its page."""
    licence = _licence(item) or whole
    lead = Lead(
        page,
        page=page,
        title=_text(item, "title"),
        date=iso_date(day),
        date_from="feed" if iso_date(day) else "",
        licence=licence,
        licence_from="feed" if licence else "",
    )
    named = list(dict.fromkeys(_pictures_of(item)))
    for address in named:
        yield replace(lead, address=address, kind="picture")
    if not named and page:
        yield lead


def _pictures_of(item: Any) -> Iterator[str]:
    for node in item.iter():
        kind = node.get("type", "") if isinstance(node.tag, str) else ""
        is_media = _name(node) == "content" and (node.get("medium") == "image" or "image/" in kind)
        if (is_media or (_name(node) == "enclosure" and kind.startswith("image/"))) and node.get("url"):
            yield node.get("url")
        elif _name(node) == "link" and node.get("rel") == "enclosure" and kind.startswith("image/"):
            yield node.get("href", "")


def _urlset(root: Any) -> Iterator[Lead]:
    for url in _all(root, "url"):
        page = _text(url, "loc")
        news = _text(url, "publication_date")
        day = iso_date(news or _text(url, "lastmod"))
        lead = Lead(page, page=page, title=_text(url, "title"), date=day, date_from="sitemap" if day else "")
        images = [node for node in url if _name(node) == "image"]
        for image in images:
            licence = _text(image, "license")
            yield replace(
                lead,
                address=_text(image, "loc"),
                kind="picture",
                title=_text(image, "title") or _text(image, "caption") or lead.title,
                licence=licence,
                licence_from="sitemap" if licence else "",
            )
        if not images and page:
            yield lead


def _index(root: Any) -> Iterator[Lead]:
    for sitemap in _all(root, "sitemap"):
        yield Lead(_text(sitemap, "loc"))


def _licence(node: Any) -> str:
    """`creativeCommons:license`, `cc:license`, `media:license`, Atom's `link rel=license`; else `dc:rights`."""
    if node is None:
        return ""
    for child in node:
        if _name(child) == "license":
            return str(child.get("href") or _own_text(child) or _resource(child))
        if _name(child) == "link" and child.get("rel") == "license":
            return str(child.get("href", ""))
    return next((_own_text(child) for child in node if _name(child) == "rights"), "")


def _resource(node: Any) -> str:
    return next((value for key, value in node.attrib.items() if key.endswith("}resource")), "")


def parse_page(text: str, lead: Lead, url: str) -> PageFound:
    """The main picture of a page (`og:image`), with the date and the licence that the page states."""
    try:
        root = html.document_fromstring(text)
    except (etree.ParserError, ValueError):
        return PageFound(None)
    meta = _meta(root)
    reserved = bool(_RESERVED.search(meta.get("robots", ""))) or meta.get("tdm-reservation", "").strip() == "1"
    picture = meta.get("og:image:secure_url") or meta.get("og:image") or meta.get("twitter:image", "")
    if not picture:
        return PageFound(None, reserved)
    day = iso_date(meta.get("article:published_time", "") or meta.get("date", ""))
    licence = next(iter(root.xpath("//*[contains(concat(' ', @rel, ' '), ' license ')]/@href")), "")
    found = replace(
        lead,
        address=_joined(url, picture),
        kind="picture",
        page=url,
        title=lead.title or meta.get("og:title", "") or (root.findtext(".//title") or "").strip(),
    )
    if day and not found.date:
        found = replace(found, date=day, date_from="page")
    if stated := _joined(url, str(licence)) if licence else "":
        found = replace(found, licence=stated, licence_from="page")
    return PageFound(found, reserved)


def _meta(root: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in root.iter("meta"):
        name = node.get("property") or node.get("name")
        if name and node.get("content"):
            found.setdefault(name.lower(), node.get("content"))
    return found


def iso_date(text: str) -> str:
    """An ISO, RFC 822 or EXIF date as an ISO date; empty where it is none."""
    text = text.strip()
    exif = re.match(r"(\d{4}):(\d\d):(\d\d)", text)
    try:
        if exif:
            return date(int(exif[1]), int(exif[2]), int(exif[3])).isoformat()
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return date.fromisoformat(text).isoformat()
        if re.match(r"\d{4}-\d\d-\d\dT", text):
            return datetime.fromisoformat(text).date().isoformat()
        return parsedate_to_datetime(text).date().isoformat()
    except (ValueError, IndexError, TypeError):
        return ""


def _absolute(lead: Lead, base: str) -> Lead:
    return replace(
        lead,
        address=_joined(base, lead.address),
        page=_joined(base, lead.page) if lead.page else "",
    )


def _joined(base: str, address: str) -> str:
    """Empty where a stranger's text is no address, such as a bracket that is never closed."""
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return ""


def _name(node: Any) -> str:
    return etree.QName(node).localname if node is not None and isinstance(node.tag, str) else ""


def _all(root: Any, name: str) -> Iterator[Any]:
    return (node for node in root.iter() if _name(node) == name)


def _first(root: Any, name: str) -> Any:
    return next(_all(root, name), None)


def _text(node: Any, name: str) -> str:
    """The text of the first element of that name below a node, its own children first."""
    own = next((child for child in node if _name(child) == name and _own_text(child)), None)
    found = own if own is not None else next((each for each in _all(node, name) if _own_text(each)), None)
    return _own_text(found) if found is not None else ""


def _own_text(node: Any) -> str:
    return " ".join((node.text or "").split())
