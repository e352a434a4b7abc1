"""The pictures of the context by their number."""

from __future__ import annotations

from vlagent.errors import ToolInputError
from vlagent.tools.base import ToolContext
from vlagent.types import ImageRef


def picture(context: ToolContext, index: int) -> ImageRef:
    """Picture `index` of the context; raises `ToolInputError` that says which there are."""
    count = len(context.images)
    if 0 <= index < count:
        return context.images[index]
    if not count:
        raise ToolInputError(f"image_index {index}: there is no picture in this conversation.")
    there = "there is only image 0" if count == 1 else f"there are images 0 to {count - 1}"
    raise ToolInputError(f"image_index {index}: there is no such picture; {there}.")
