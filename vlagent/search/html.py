"""The text of a web page: trafilatura first, all visible text where it finds too little."""

from __future__ import annotations

import re
from typing import Any

import trafilatura
from lxml import etree  # type: ignore[import-untyped]
from lxml.html import HTMLParser, document_fromstring  # type: ignore[import-untyped]

_BLOCK_TAGS = """p div section article header footer main aside nav ul ol li dl dt dd table tr h1 h2 h3 h4 h5 h6 pre
blockquote br hr form fieldset figure figcaption title"""
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_UNSEEN = ("script", "style", "noscript", "template", "svg", "head")


def page_text(html: str, *, share: float = 0.4) -> tuple[str, str]:
    """Title and readable text of a page; either may be empty. Never raises on malformed markup.

    The main text is taken where it is at least this `share` of all visible letters.
    """
    try:
        parser = HTMLParser(encoding="utf-8", huge_tree=True)
        tree = document_fromstring(html.encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return "", re.sub(r"<[^>]*>", " ", html)
    title = " ".join((tree.findtext(".//title") or tree.findtext(".//h1") or "").split())
    main = trafilatura.extract(html, favor_recall=True, include_comments=False, include_tables=True) or ""
    everything = _visible(tree)
    enough = len(main) >= share * len(everything)
    return title, main.replace("\n", "\n\n") if enough else everything


def _visible(tree: Any) -> str:
    for element in list(tree.iter(*_UNSEEN)):
        element.drop_tree() if element.getparent() is not None else None
    pieces: list[str] = []
    _collect(tree, pieces)
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n\n".join(line for line in lines if line)


def _collect(root: Any, pieces: list[str]) -> None:
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if element.tag in _BLOCKS:
            pieces.append("\n")
        if event == "start":
            pieces.append((element.text or "").replace("\n", " "))
        else:
            pieces.append((element.tail or "").replace("\n", " "))
