"""Rows of a provider's answer to hits: one without an address is left out, an answer of another shape a failure."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from vlagent.errors import TransientError
from vlagent.types import Hit, Source


def rows_of(service: str, answer: Any, *path: str, mark: str | None = None) -> list[Mapping[str, Any]]:
    """The list of objects at `path`; empty where a step is absent or null, which is what "no results" looks like.

    `mark` is a field that even an empty answer of this provider has. Raises `TransientError` for another shape.
    """
    if mark and isinstance(answer, dict) and mark not in answer and path[0] not in answer:
        raise TransientError(service, f"the answer has another shape than expected (neither {path[0]!r} nor {mark!r})")
    value = answer
    for step in path:
        if not isinstance(value, dict):
            raise TransientError(service, f"the answer has another shape than expected (no object above {step!r})")
        value = value.get(step)
        if value is None:
            return []
    if not isinstance(value, list):
        raise TransientError(service, f"the answer has another shape than expected ({path[-1]!r} is no list)")
    return [row for row in value if isinstance(row, dict)]


def hits_of(rows: list[Mapping[str, Any]], link: str, text: str, top_k: int) -> list[Hit]:
    """Hits in the order of the rows, an address once; `link` and `text` name the fields."""
    hits: dict[str, Hit] = {}
    for row in rows:
        url = row.get(link)
        if not isinstance(url, str) or not url.startswith(("http://", "https://")) or url in hits:
            continue
        source = Source(title=plain(row.get("title")) or url, url=url)
        hits[url] = Hit(source=source, text=plain(row.get(text)), score=1.0 / (len(hits) + 1))
        if len(hits) == top_k:
            break
    return list(hits.values())


def plain(value: Any) -> str:
    """Text without the markup that some providers highlight words with."""
    if not isinstance(value, str):
        return ""
    return " ".join(html.unescape(re.sub(r"</?(?:b|strong|em|i|mark|span)\b[^>]*>", "", value)).split())
