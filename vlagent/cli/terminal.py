"""Text of models and pages on a terminal: nothing that they wrote may move the cursor, change colours or hide."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from vlagent.types import Source

CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""C0 (tab and newline apart), DEL, C1, bidirectional and invisible controls, line separators, tags."""


def clean(text: str) -> str:
    """The text with every control character shown as � ; carriage returns of line ends are dropped."""
    return CONTROL.sub("�", text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """Clean text on one line."""
    return " ".join(clean(text).split())


def warn(text: str) -> None:
    """One line on stderr, with our name before it."""
    print(f"vlagent: {one_line(text)}", file=sys.stderr)


def to_json(value: Any) -> str:
    """JSON that is readable, and that a terminal shows as it is: control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return CONTROL.sub(lambda found: _escaped(found[0]), text).encode("utf-8", "replace").decode()


def _escaped(character: str) -> str:
    return json.dumps(character, ensure_ascii=True)[1:-1] if character != "\x7f" else "\\u007f"


def describe(source: Source) -> str:
    """A source on one line: title, then file and page, or link."""
    place = source.url or source.file or ""
    page = f", page {source.page}" if source.file and source.page and not source.url else ""
    title = one_line(source.title)
    return f"{title}  {one_line(place)}{page}" if place and title != place else f"{one_line(place) or title}{page}"


class _CleanConsole(Console):
    """Whatever is printed as a `str`, a table's cells and titles too, is cleaned; a `Text` is its maker's matter."""

    def render_str(self, text: str, **style: Any) -> Text:
        return super().render_str(clean(text), **style)


def console_for(stream: Any) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no guessed colours, no control characters."""
    return _CleanConsole(file=stream, markup=False, emoji=False, highlight=False, soft_wrap=not stream.isatty())
