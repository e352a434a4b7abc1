"""Does a query carry the name that was read from the picture? "When was this tower opened" finds any tower."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlagent.search.noise.names import is_misspelt
from vlagent.search.words import index_words, query_words
from vlagent.types import Hit

_POINTING = re.compile(
    r"\b(?:this|that|these|those)\s+(?!year|month|week|century|time|day)\w+"
    r"|\bin\s+(?:the|this)\s+(?:picture|image|photo|photograph)\b|\b(?:pictured|depicted|shown)\b",
    re.IGNORECASE,
)
_SHOWN = 3


def ungrounded(query: str, seen: Sequence[Hit]) -> str:
    """One line on a query that names nothing of what pictures were found to show; empty where it does, or where no
    picture has been looked up and the query points at nothing.
    """
    titles = list(dict.fromkeys(hit.source.title for hit in seen if hit.thumbnail is not None))
    if not titles:
        return _POINTED if _POINTING.search(query) else ""
    asked = query_words(_POINTING.sub(" ", query))
    if any(_shares(asked, title) for title in titles):
        return ""
    known = ", ".join(f'"{title}"' for title in titles[:_SHOWN])
    return f"the query names nothing that the picture was found to show ({known})"


_POINTED = "the query points at the picture, which a text search does not see: use the name of what it shows"


def _shares(asked: Sequence[str], title: str) -> bool:
    """Every second word of a title, or its first; a single letter may be wrong in neither."""
    words = [word for word in index_words(re.sub(r"\s*\([^)]*\)", "", title)) if len(word) > 1]
    if any(is_misspelt(word, wanted) for word in asked for wanted in words):
        return False
    common = sum(word in asked for word in words)
    return bool(words) and common * 2 >= len(words)
