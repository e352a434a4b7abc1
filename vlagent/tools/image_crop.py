"""Look closer: cut a region from the best source there is."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from vlagent import images
from vlagent.errors import ToolInputError
from vlagent.files import write_atomic
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.tools.pictures import picture
from vlagent.types import Box, ImageRef

SCALE = 1000
"""Canonical coordinates run from 0 to this, whatever the picture's size."""
MIN_SIDE = 4
"""Source pixels; a smaller box is grown around its centre."""
SAVED_SIDE = 2048
"""Longest side of the copy that is kept for people in the run folder."""


class ImageCropArguments(Arguments):
    """A box of one picture of the context."""

    bbox: Annotated[list[Annotated[float, Field(ge=0, le=SCALE)]], Field(min_length=4, max_length=4)] = Field(
        description="[x1, y1, x2, y2]: the left, top, right and bottom edge, each from 0 to 1000."
    )
    image_index: int = Field(ge=0, description="The number of the picture to crop.")


class ImageCrop:
    """From the original file at full resolution, or (`crop_source = view`) from the picture as the model saw it."""

    name: ClassVar[str] = "image_crop"
    description: ClassVar[str] = (
        "Cut a region out of a picture and look at it enlarged. Use it for anything too small to read or tell apart."
    )
    arguments: ClassVar[type[Arguments]] = ImageCropArguments

    def __init__(self) -> None:
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    async def run(self, arguments: ImageCropArguments, context: ToolContext) -> ToolOutput:
        """Raises `ToolInputError` for a picture that is not there or a box without area."""
        ref = picture(context, arguments.image_index)
        if context.crop_source == "view":
            region = await images.in_thread(self._from_view, ref, arguments, context)
        else:
            region = images.crop(ref, pixels_of(arguments.bbox, (ref.width, ref.height)))
            if context.folder:
                await images.in_thread(_save, region, context.folder / _name(context, repr(region)))
        where = ", ".join(f"{edge:g}" for edge in arguments.bbox)
        return ToolOutput(
            text=f"The region [{where}] of image {arguments.image_index} ({region.width} x {region.height} pixels).",
            images=(region,),
        )

    def _from_view(self, ref: ImageRef, arguments: ImageCropArguments, context: ToolContext) -> ImageRef:
        """A view is no file, so that its crops are saved as files of their own, without loss."""
        view = context.views[arguments.image_index]
        box = pixels_of(arguments.bbox, view)
        cut = images.load(ref, view).crop(box)
        path = self._folder(context) / _name(context, f"{ref!r} {view} {box}")
        write_atomic(path, images.encode(cut))
        return ImageRef(path=str(path.absolute()), width=cut.width, height=cut.height)

    def _folder(self, context: ToolContext) -> Path:
        if context.folder:
            return context.folder
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="vlagent-crops-")
        return Path(self._scratch.name)


def pixels_of(bbox: list[float], size: tuple[int, int]) -> Box:
    """The box (0-1000) in whole pixels of a picture of (width, height) `size`.

    Edges go to the nearest pixel; a side under 4 pixels is grown around its centre, as far as the picture goes.
    """
    left, top, right, bottom = bbox
    if not (left < right and top < bottom):
        raise ToolInputError(f"bbox {bbox} has no area: x1 < x2 and y1 < y2 are needed.")
    x1, x2 = _side(left, right, size[0])
    y1, y2 = _side(top, bottom, size[1])
    return x1, y1, x2, y2


def _side(low: float, high: float, length: int) -> tuple[int, int]:
    first, last = round(low * length / SCALE), round(high * length / SCALE)
    needed = min(MIN_SIDE, length)
    if last - first >= needed:
        return first, last
    start = round((low + high) / 2 * length / SCALE - needed / 2)
    start = min(max(start, 0), length - needed)
    return start, start + needed


def _name(context: ToolContext, address: str) -> str:
    sample = re.sub(r"[^\w.-]+", "_", context.sample.id)[:60]
    return f"{sample}-{hashlib.blake2b(address.encode(), digest_size=6).hexdigest()}.png"


def _save(region: ImageRef, path: Path) -> None:
    """A copy for people; the agent itself goes on with the address in the original."""
    if path.exists():
        return
    factor = min(1.0, SAVED_SIDE / max(region.width, region.height))
    size = max(1, round(region.width * factor)), max(1, round(region.height * factor))
    write_atomic(path, images.encode(images.load(region, size)))
