"""Look something up by its looks."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from vlagent.errors import ServiceError
from vlagent.search.base import ImageQuery, SearchServices
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.tools.pictures import picture
from vlagent.tools.text_search import shown
from vlagent.types import CachedImageSearch, Hit, ImageRef, Sample

MAX_RESULTS = 5


class ImageSearchArguments(Arguments):
    """One picture of the context."""

    image_index: int = Field(default=0, ge=0, description="The number of the picture to search for; crops work too.")


class ImageSearch:
    """Titles and thumbnails of the pages that show the same picture."""

    name: ClassVar[str] = "image_search"
    description: ClassVar[str] = (
        "Find pages that show the same picture. Returns titles and thumbnails. Any picture seen so far can be searched."
    )
    arguments: ClassVar[type[Arguments]] = ImageSearchArguments

    def missing(self, search: SearchServices) -> str | None:
        """Why this tool cannot work with these services."""
        if search.images:
            return None
        return "there is no picture index; give one with --search (vlagent index images makes it)"

    async def run(self, arguments: ImageSearchArguments, context: ToolContext) -> ToolOutput:
        """Raises `ToolInputError` for a picture that is not there, `ServiceError` where the search fails."""
        ref = picture(context, arguments.image_index)
        if context.search.images is None:
            raise ServiceError(self.name, "there is no image search in this run")
        top_k = min(context.top_k, MAX_RESULTS)
        query = ImageQuery(image=ref, top_k=top_k, cached=_cached(ref, context.sample))
        hits = tuple((await context.search.images.search(query))[:top_k])
        if not hits:
            return ToolOutput(text=f"No page shows image {arguments.image_index}.")
        return ToolOutput(
            text=_layout(hits, arguments.image_index),
            images=tuple(hit.thumbnail for hit in hits if hit.thumbnail),
            sources=tuple(dict.fromkeys(hit.source for hit in hits)),
            hits=hits,
        )


def _cached(ref: ImageRef, sample: Sample) -> CachedImageSearch | None:
    """Published answers belong to the sample's own first picture, never to a crop."""
    return sample.image_search if sample.images and ref == sample.images[0] else None


def _layout(hits: tuple[Hit, ...], index: int) -> str:
    lines = [f"Pages that show image {index}:"]
    for number, hit in enumerate(hits, 1):
        note = "" if hit.thumbnail else " (no thumbnail)"
        text = " ".join(hit.text.split())
        about = f": {text}" if text and text != hit.source.title else ""
        lines.append(f"Title {number}: {shown(hit.source)}{note}{about}")
    return "\n".join(lines)
