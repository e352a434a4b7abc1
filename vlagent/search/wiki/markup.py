"""Wiki markup to the text that a reader sees: no references, files, categories or navigation; tables as lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import mwparserfromhell
from mwparserfromhell.nodes import ExternalLink, Heading, HTMLEntity, Tag, Template, Text, Wikilink
from mwparserfromhell.parser import ParserError

from vlagent.search.wiki.templates import template_text

_UNSEEN = re.compile(
    r"<!--.*?-->|<ref(?:\s[^<>]*)?/>|<ref(?:\s[^<>]*)?>.*?</ref\s*>|__[A-Z]{4,}__"
    r"|<(gallery|timeline|imagemap|score|templatestyles|graph|mapframe)\b[^<>]*(?:/>|>.*?</\1\s*>)",
    re.DOTALL | re.IGNORECASE,
)
_EMPHASIS = re.compile(r"'{2,5}")
_BIDI = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00ad]")
_EMPTY_BRACKETS = re.compile(r"[(（]\s*(?:[;,；，、/]\s*|\bor\s+)*[)）]")
_LEADING = re.compile(r"([(（])\s*(?:[;,；，、]\s*)+")
_TRAILING = re.compile(r"(?:\s*[;,；，、])+\s*([)）])")
_LANGUAGE = re.compile(r"^[a-z]{2,3}(?:-[a-z]{2,10})*$")
_NO_TEXT = "ref references gallery timeline imagemap score style script templatestyles graph"
_DROPPED_TAGS = frozenset(_NO_TEXT.split())
_OWN_LINE = "p div li dd dt blockquote ul ol center section"
_BLOCKS = frozenset(_OWN_LINE.split())
_TAIL = """references|external links|see also|further reading|notes|bibliography|sources|footnotes|citations
|works cited|notes and references|einzelnachweise|weblinks|literatur|références|liens externes|voir aussi|referencias
|enlaces externos|véase también|примечания|ссылки|см. также|литература|脚注|出典|外部リンク|関連項目|参考文献
|参考资料|外部链接|参见|각주|외부 링크|같이 보기|المراجع|مراجع|وصلات خارجية|انظر أيضا|הערות שוליים
|קישורים חיצוניים|ראו גם"""
TAIL_SECTIONS = frozenset(name.strip() for name in _TAIL.split("|"))
"""Sections that hold no text of the article."""
_OPEN, _CLOSE = "\x02", "\x03"


def page_text(wikitext: str, media: Sequence[str] = ("file", "image", "category")) -> str:
    """The visible text of a page, a heading on its own paragraph. `media` are folded namespaces that show nothing."""
    bare = _UNSEEN.sub("", wikitext)
    try:
        rendered = _Renderer(frozenset(media)).text(mwparserfromhell.parse(bare, skip_style_tags=True))
    except (ParserError, RecursionError):
        rendered = re.sub(r"\{\{[^{}]*\}\}|\[\[(?:[^\[\]|]*\|)?([^\[\]]*)\]\]|<[^<>]*>", r"\1", bare)
    return _joined(_tidy(_EMPHASIS.sub("", rendered)))


class _Renderer:
    """Nodes to text."""

    def __init__(self, media: frozenset[str]) -> None:
        self._media = media

    def text(self, code: Any) -> str:
        """All nodes of a piece of markup."""
        return "".join(self._node(node) for node in code.nodes) if code is not None else ""

    def _node(self, node: Any) -> str:
        if isinstance(node, Text):
            return str(node.value)
        if isinstance(node, Wikilink):
            return self._link(node)
        if isinstance(node, Template):
            return template_text(node, self.text)
        if isinstance(node, Tag):
            return self._tag(node)
        if isinstance(node, Heading):
            return f"\n{_OPEN}{node.level}{self.text(node.title).strip()}{_CLOSE}\n"
        if isinstance(node, HTMLEntity):
            return str(node.normalize() or "")
        if isinstance(node, ExternalLink):
            return self.text(node.title)
        return ""

    def _link(self, node: Wikilink) -> str:
        target = str(node.title).strip()
        prefix, colon, _ = target.partition(":")
        if colon and (prefix.strip().lower() in self._media or _LANGUAGE.match(prefix.strip())):
            return ""
        if node.text is not None:
            return self.text(node.text)
        return self.text(node.title).lstrip(":").replace("_", " ")

    def _tag(self, node: Tag) -> str:
        name = str(node.tag).strip().lower()
        if name in _DROPPED_TAGS:
            return ""
        if name == "table":
            return f"\n\n{self._table(node.contents)}\n\n"
        if node.wiki_markup in ("*", "#", ":", ";"):
            return ""
        if name in ("br", "hr"):
            return "\n"
        inner = self.text(node.contents)
        return f"\n{inner}\n" if name in _BLOCKS else inner

    def _table(self, code: Any) -> str:
        """A row a line; cells are named by the header row where there is one for each of them."""
        header: list[str] = []
        lines = []
        for row in _rows(code):
            cells = [self._cell(cell.contents).removeprefix("+ ") for cell in row]
            if len(row) > 1 and not header and all(str(cell.tag) == "th" for cell in row):
                header = cells
                continue
            if len(cells) == len(header):
                cells = [f"{name}: {cell}" if name and cell else cell for name, cell in zip(header, cells, strict=True)]
            lines.append("; ".join(cell for cell in cells if cell))
        return "\n".join(line for line in lines if line) or "; ".join(header)

    def _cell(self, contents: Any) -> str:
        return " ".join(self.text(contents).replace("\n", " ").split())


def _rows(code: Any) -> list[list[Any]]:
    """The cells of each row; the caption ("|+") is one, and so are those before the first row mark."""
    rows: list[list[Any]] = [[]]
    for node in code.nodes if code is not None else []:
        name = str(node.tag).strip().lower() if isinstance(node, Tag) else ""
        if name == "td" and str(node.contents).startswith("+"):
            rows.insert(0, [node])
        elif name in ("td", "th"):
            rows[-1].append(node)
        elif name in ("tr", "tbody", "thead"):
            rows += [*_rows(node.contents), []]
    return [row for row in rows if row]


def _tidy(text: str) -> str:
    text = _BIDI.sub("", text).replace("\u00a0", " ")
    text = re.sub(r"[ \t]+", " ", text)
    text = _TRAILING.sub(r"\1", _LEADING.sub(r"\1", _EMPTY_BRACKETS.sub("", text)))
    text = re.sub(r" +([,.;:!?)])", r"\1", re.sub(r"([(]) +", r"\1", text))
    text = "\n".join(line.strip().lstrip("*#:; ") for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", re.sub(r" {2,}", " ", text))


def _joined(text: str) -> str:
    """Sections with a body, under their headings; what only lists sources is left out with its sub-sections."""
    head, *rest = text.split(_OPEN)
    parts, dropped = [head.strip()], 9
    for piece in rest:
        heading, _, body = piece.partition(_CLOSE)
        level, title = int(heading[:1]), heading[1:].strip()
        if level > dropped:
            continue
        dropped = level if title.lower() in TAIL_SECTIONS else 9
        if dropped == 9 and body.strip():
            parts.append(f"{title}\n\n{body.strip()}")
    return "\n\n".join(part for part in parts if part)
