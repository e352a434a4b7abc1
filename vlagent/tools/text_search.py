"""Look something up in words."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field

from vlagent.errors import ServiceError, ToolInputError
from vlagent.search.base import SearchServices, Summariser, Summary, TextQuery
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.types import Hit, Source

MAX_RESULTS = 5
MAX_QUERY = 2000
"""Characters."""
CLIPPED = 600
"""Characters of a passage that is shown as it is, without a summary."""

KEPT = 4000
"""Characters of a hit that stay in the record of an episode."""


class TextSearchArguments(Arguments):
    """A query in plain words."""

    query: str = Field(min_length=1, max_length=MAX_QUERY, description="What to look for, in plain words.")


class TextSearch:
    """Five results at most, each summarised against the query, then all together."""

    name: ClassVar[str] = "text_search"
    description: ClassVar[str] = (
        "Search documents or the web by text. Returns a short summary of each of the best results and one of them all."
    )
    arguments: ClassVar[type[Arguments]] = TextSearchArguments

    def missing(self, search: SearchServices) -> str | None:
        """Why this tool cannot work with these services."""
        return None if search.text else "there is no text index; give one with --search (vlagent index text makes it)"

    async def run(self, arguments: TextSearchArguments, context: ToolContext) -> ToolOutput:
        """Raises `ToolInputError` for a blank query, `ServiceError` where the search fails."""
        query = arguments.query.strip()
        if not query:
            raise ToolInputError("query is empty: say what to look for.")
        if context.search.text is None:
            raise ServiceError(self.name, "there is no text search in this run")
        top_k = min(context.top_k, MAX_RESULTS)
        found = (await context.search.text.search(TextQuery(text=query, top_k=top_k)))[:top_k]
        checks = context.search.checks
        note = checks.note(query, context.hits) if checks else ""
        if not found:
            return ToolOutput(text="\n\n".join([f"No results for {query!r}.", *_notes((note,))]))
        hits = tuple(checks.order(query, found) if checks else found)
        summary = await _summary(context.search.summariser, query, hits)
        return ToolOutput(
            text="\n\n".join([_layout(hits, summary, first=len(context.hits) + 1), *_notes((*summary.flags, note))]),
            sources=tuple(dict.fromkeys(hit.source for hit in hits)),
            hits=tuple(_short(hit) for hit in hits),
            degraded=summary.degraded or any(hit.degraded for hit in hits),
        )


async def _summary(summariser: Summariser | None, query: str, hits: tuple[Hit, ...]) -> Summary:
    """Without a summariser the passages stand for themselves; a broken one leaves the result usable but degraded."""
    plain = tuple(_clipped(hit.text) for hit in hits)
    if summariser is None:
        return Summary(text="", parts=plain)
    try:
        return await summariser.summarise(query, list(hits))
    except ServiceError:
        return Summary(text="", parts=plain, degraded=True)


def _notes(notes: tuple[str, ...]) -> list[str]:
    return [f"Note: {' '.join(note.split())}." for note in notes if note]


def _short(hit: Hit) -> Hit:
    """As it is kept with the episode: a whole page would make a record of megabytes."""
    return hit if len(hit.text) <= KEPT else hit.model_copy(update={"text": hit.text[:KEPT] + "..."})


def _layout(hits: tuple[Hit, ...], summary: Summary, first: int) -> str:
    blocks = []
    for offset, hit in enumerate(hits):
        part = summary.parts[offset] if offset < len(summary.parts) else _clipped(hit.text)
        # On one line, so that a page cannot add a block of its own that looks like another result.
        flags = "".join(f" ({' '.join(flag.split())})" for flag in hit.flags)
        blocks.append(f"[{first + offset}] {shown(hit.source)}{flags}\n{' '.join(part.split())}".rstrip())
    if summary.text.strip():
        blocks.append(f"Summary: {summary.text.strip()}")
    return "\n\n".join(blocks)


def shown(source: Source) -> str:
    """A source in one line: title, then file and page or address. The folder of a file is nobody's business."""
    title = " ".join(source.title.split())
    place = source.url or (Path(source.file).name if source.file else None)
    if place and source.page:
        place = f"{place}, page {source.page}"
    return f"{title} ({place})" if place and place != title else title


def _clipped(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CLIPPED else line[: CLIPPED - 3].rsplit(" ", 1)[0] + "..."
