"""Results about a namesake of what is asked about: the film, the hotel, the old tower, the name misspelt."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vlagent.search.noise.attributes import subject_of
from vlagent.search.noise.names import is_misspelt, speaks_of
from vlagent.search.words import fold
from vlagent.types import Hit


def is_namesake(hit: Hit, query: str, name: str) -> bool:
    """Whether a hit is about something whose name only resembles `name`.

    Careful: a hit that speaks of the very name anywhere, in its title or its text, is none.
    """
    title, text = hit.source.title, hit.text
    if speaks_of(title, name, query) or speaks_of(text, name, query):
        return not speaks_of(title, name, query) and _is_qualified(title, name)
    return _holds(f"{title}\n{text}", name) or _has_misspelt(title, name)


def ordered(query: str, hits: Sequence[Hit], flag: str) -> list[Hit]:
    """Those about a namesake last, with the flag. Where every hit is one, there is nothing to tell apart."""
    name = subject_of(query)
    namesakes = [is_namesake(hit, query, name) for hit in hits]
    if not name or all(namesakes):
        return list(hits)
    first = [hit for hit, other in zip(hits, namesakes, strict=True) if not other]
    last = [
        hit.model_copy(update={"flags": (*hit.flags, flag)})
        for hit, other in zip(hits, namesakes, strict=True)
        if other
    ]
    return [*first, *last]


def _is_qualified(title: str, name: str) -> bool:
    """A title "Name (film)": its text calls the film by the bare name."""
    return bool(re.match(rf"\s*{re.escape(name)}\s*\([^)]*\)\s*$", title, re.IGNORECASE))


def _holds(text: str, name: str) -> bool:
    return fold(name) in fold(text)


def _has_misspelt(title: str, name: str) -> bool:
    words, wanted = title.split(), name.split()
    for start in range(len(words) - len(wanted) + 1):
        pairs = list(zip(words[start : start + len(wanted)], wanted, strict=True))
        wrong = [pair for pair in pairs if fold(pair[0]).strip(".,;:'’") != fold(pair[1])]
        if len(wrong) == 1 and is_misspelt(wrong[0][0].strip(".,;:'’"), wrong[0][1]):
            return True
    return False
