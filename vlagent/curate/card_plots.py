"""Bars as a small SVG file. No script, no fonts, nothing to install; it shows wherever Markdown does."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

LABEL, LENGTH, VALUE = 170, 360, 70
"""Pixels for names, bars and numbers."""
BAR, GAP, HEAD = 16, 6, 30
MOST = 24
"""Bars; what is smaller goes together."""


def bars(title: str, counts: Mapping[str, int]) -> str:
    """One horizontal bar a name, in the order given."""
    shown = dict(list(counts.items())[:MOST])
    rest = sum(counts.values()) - sum(shown.values())
    if rest:
        shown["others"] = rest
    top = max(shown.values(), default=0) or 1
    height = HEAD + len(shown) * (BAR + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LABEL + LENGTH + VALUE}" height="{height}" '
        'font-family="sans-serif" font-size="12" role="img">',
        f'<title>{escape(title)}</title><rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="0" y="16" font-size="14" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (name, count) in enumerate(shown.items()):
        lines.append(_bar(name, count, count / top, HEAD + number * (BAR + GAP)))
    return "\n".join([*lines, "</svg>", ""])


def _bar(name: str, count: int, share: float, y: int) -> str:
    text = name if len(name) <= 24 else f"{name[:23]}…"
    width = round(LENGTH * share, 1)
    return (
        f'<text x="{LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(text)}</text>'
        f'<rect x="{LABEL}" y="{y}" width="{width}" height="{BAR}" fill="#2f5d8a"/>'
        f'<text x="{LABEL + width + 6}" y="{y + 12}">{count}</text>'
    )
