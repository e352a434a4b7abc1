"""Small real services and contexts for the tools' tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PIL import Image

from vlagent import images
from vlagent.errors import TransientError
from vlagent.search.base import ImageQuery, SearchServices, Summary, TextQuery
from vlagent.tools.base import ToolContext
from vlagent.types import Hit, ImageRef, Sample, Source


class Shelf:
    """Finds the documents that share a word with the query, in their order."""

    def __init__(self, *documents: tuple[str, str]) -> None:
        self.documents = documents
        self.queries: list[TextQuery] = []

    async def search(self, query: TextQuery) -> list[Hit]:
        self.queries.append(query)
        words = set(query.text.lower().split())
        return [
            Hit(source=Source(title=title, file=f"/shelf/{title}.txt"), text=text)
            for title, text in self.documents
            if words & set(text.lower().split())
        ]


class Album:
    """Knows its pictures by their size."""

    def __init__(self, *pages: tuple[str, ImageRef | None]) -> None:
        self.pages = pages
        self.queries: list[ImageQuery] = []

    async def search(self, query: ImageQuery) -> list[Hit]:
        self.queries.append(query)
        if query.cached:
            return [Hit(source=Source(title=title)) for title in query.cached.titles]
        return [
            Hit(source=Source(title=title, url=f"https://album/{title}"), thumbnail=ref) for title, ref in self.pages
        ]


class FirstWords:
    """Summarises by first words."""

    async def summarise(self, question: str, hits: list[Hit]) -> Summary:
        parts = tuple(hit.text.split()[0] for hit in hits)
        return Summary(text=f"{question}: {' '.join(parts)}", parts=parts)


class Broken:
    """A service that is down."""

    async def search(self, query: Any) -> list[Hit]:
        raise TransientError("shelf", "down")

    async def summarise(self, question: str, hits: list[Hit]) -> Summary:
        raise TransientError("summariser", "down")


def picture(folder: Path, pixels: Any, name: str = "photo.png") -> ImageRef:
    """Save an array as a picture."""
    Image.fromarray(pixels).save(folder / name)
    return images.probe(folder / name)


def context(*refs: ImageRef, **more: Any) -> ToolContext:
    """A context that shows these pictures, each at a third of its size."""
    views = [(max(1, ref.width // 3), max(1, ref.height // 3)) for ref in refs]
    given = {
        "search": SearchServices(),
        "views": views,
        "sample": Sample(id="s", source="t", question="?", images=refs),
    }
    return ToolContext(images=list(refs), **{**given, **more})
