"""A tool for vlagent: the exact colour at one place of a picture."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from pydantic import Field

from vlagent import images
from vlagent.errors import ToolInputError
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.tools.pictures import picture


class ColourArguments(Arguments):
    """A place in one picture of the conversation."""

    x: float = Field(ge=0, le=1000, description="From the left edge (0) to the right edge (1000).")
    y: float = Field(ge=0, le=1000, description="From the top edge (0) to the bottom edge (1000).")
    image_index: int = Field(default=0, ge=0, description="The number of the picture.")


class Colour:
    """Reads one pixel of the original file."""

    name: ClassVar[str] = "colour"
    description: ClassVar[str] = "Tell the exact colour at one place of a picture, as #rrggbb."
    arguments: ClassVar[type[Arguments]] = ColourArguments

    async def run(self, arguments: ColourArguments, context: ToolContext) -> ToolOutput:
        ref = picture(context, arguments.image_index)  # ToolInputError where there is no such picture
        if ref.width < 4 or ref.height < 4:
            raise ToolInputError(f"image {arguments.image_index} is too small to pick a colour from.")
        left = round(arguments.x * (ref.width - 1) / 1000)
        top = round(arguments.y * (ref.height - 1) / 1000)
        pixel = images.crop(ref, (left, top, left + 1, top + 1))
        loaded = await asyncio.to_thread(images.load, pixel)  # decoding blocks: never in the event loop
        return ToolOutput(text="The colour is #{:02x}{:02x}{:02x}.".format(*loaded.getpixel((0, 0))))
