"""Bytes of a page to its title and text. Pure work for a processor: it runs in a worker."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass

from vlagent.search.html import page_text
from vlagent.search.pages.encoding import decoded

_HTML = ("text/html", "application/xhtml+xml", "application/xml", "text/xml")
_THIN = 200
"""Characters: a page with scripts and less text than this is a shell that scripts would fill."""
_MAIN_SHARE = 0.1
"""Pages of the web are menus and notices for the greater part; files that are indexed are not."""
_MOUNT = re.compile(
    r"""<(?:div|main|section|app-root|body)[^>]*\bid=["'](?:root|app|__next|__nuxt|svelte|gatsby|react-root)[^"']*["']"""
    r"|<app-root|<noscript[^>]*>[^<]*(?:<(?!/noscript)[^<]*)*?javascript",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Extracted:
    """What a page says."""

    title: str
    text: str
    needs_javascript: bool = False
    """Its text is filled in by scripts."""


class NotText(ValueError):
    """The bytes are not of a kind that can be read; the message says why."""


def extract(data: bytes, content_type: str, charset: str | None = None, max_chars: int = 30_000) -> Extracted:
    """Title and first `max_chars` characters of text. Raises `NotText`."""
    if content_type == "application/pdf" or data.startswith(b"%PDF-"):
        return _pdf(data, max_chars)
    is_html = content_type in _HTML or (content_type in ("", "text/plain") and _looks_like_html(data))
    if is_html or content_type.startswith("text/") or content_type in ("", "application/json", "application/ld+json"):
        if _is_binary(data, charset):
            raise NotText("binary, not text")
        if is_html:
            return _html(decoded(data, charset), max_chars)
        return Extracted("", decoded(data, charset)[:max_chars])
    raise NotText(f"content of type {content_type!r} is not read")


def _is_binary(data: bytes, charset: str | None) -> bool:
    """Zero bytes, which only the wide encodings have in a text."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff")) or (charset or "").lower().startswith(("utf-16", "utf-32"))
    return b"\0" in data[:4096] and not wide


def _looks_like_html(data: bytes) -> bool:
    return bool(re.match(rb"\s*(?:<!--.*?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", data[:1024], re.I | re.DOTALL))


def _html(html: str, max_chars: int) -> Extracted:
    title, text = page_text(html, share=_MAIN_SHARE)
    text = text.strip()[:max_chars]
    shell = len(text) < _THIN and "<script" in html.lower() and (not text or bool(_MOUNT.search(html)))
    return Extracted(title, text, shell)


def _pdf(data: bytes, max_chars: int) -> Extracted:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    from vlagent.search.readers import PARSER_FAILURES

    try:
        pdf = PdfReader(io.BytesIO(data))
        if pdf.is_encrypted and not pdf.decrypt(""):
            raise NotText("an encrypted PDF")
        title = " ".join(str(getattr(pdf.metadata, "title", None) or "").split())
        pages: list[str] = []
        for page in pdf.pages:
            pages.append(page.extract_text())
            if sum(map(len, pages)) > max_chars:
                break
    except NotText:
        raise
    except (PyPdfError, DependencyError, *PARSER_FAILURES) as error:
        raise NotText(f"not a readable PDF ({type(error).__name__})") from None
    text = re.sub(r"(\w)[-\u00ad]\n(?=[a-zà-ÿ])", r"\1", "\n\n".join(pages)).strip()[:max_chars]
    if not text:
        raise NotText("a PDF without text (a scan)")
    return Extracted(title, text)
