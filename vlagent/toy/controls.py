"""Negative controls: break one tool and the kinds that need it must fall to the guess level."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.images import encode
from vlagent.search.base import ImageQuery, SearchServices, TextQuery, TextSearch
from vlagent.tools.base import Tool, ToolContext, ToolOutput
from vlagent.tools.image_crop import ImageCrop, ImageCropArguments
from vlagent.toy.lexicon import KINDS, Kind
from vlagent.types import Hit, ImageRef


@dataclass(frozen=True)
class Setup:
    """What an agent works with, and what a control may put in its place."""

    tools: dict[str, Tool]
    search: SearchServices
    other_text: TextSearch | None = None
    """The text index of another split."""
    scenes: Sequence[ImageRef] = ()
    """The pictures of the split, to swap crops among."""


@dataclass(frozen=True)
class Control:
    """One way to break an agent."""

    kinds: tuple[Kind, ...]
    """What it must bring to the guess level; the other kinds must not suffer."""
    apply: Callable[[Setup], Setup]


class GreyCrop(ImageCrop):
    """The right place and size, all grey."""

    def __init__(self) -> None:
        super().__init__()
        self._grey = tempfile.TemporaryDirectory(prefix="vlagent-grey-")

    async def run(self, arguments: ImageCropArguments, context: ToolContext) -> ToolOutput:
        """As `image_crop`, without what was there."""
        output = await super().run(arguments, context)
        return replace(output, images=tuple(self._emptied(ref) for ref in output.images))

    def _emptied(self, ref: ImageRef) -> ImageRef:
        path = Path(self._grey.name) / f"{ref.width}x{ref.height}.png"
        if not path.exists():
            write_atomic(path, encode(Image.new("RGB", (ref.width, ref.height), (128, 128, 128))))
        return ImageRef(path=str(path), width=ref.width, height=ref.height)


class SwappedCrop(ImageCrop):
    """The right box of another scene."""

    def __init__(self, scenes: Sequence[ImageRef]) -> None:
        super().__init__()
        self._scenes = list(scenes)
        if len(self._scenes) < 2:
            raise UserError("swapped crops: at least two scenes are needed")

    async def run(self, arguments: ImageCropArguments, context: ToolContext) -> ToolOutput:
        """As `image_crop`, out of the next scene of the split."""
        output = await super().run(arguments, context)
        return replace(output, images=tuple(self._swapped(ref) for ref in output.images))

    def _swapped(self, ref: ImageRef) -> ImageRef:
        paths = [scene.path for scene in self._scenes]
        at = paths.index(ref.path) if ref.path in paths else 0
        return ref.model_copy(update={"path": paths[(at + 1) % len(paths)]})


class NoImages:
    """An image search that knows no picture."""

    async def search(self, query: ImageQuery) -> list[Hit]:  # noqa: ARG002
        return []


class NoText:
    """A text search that knows no passage."""

    async def search(self, query: TextQuery) -> list[Hit]:  # noqa: ARG002
        return []


def _other_text(setup: Setup) -> Setup:
    if setup.other_text is None:
        raise UserError("other_text_index: give the text index of another split")
    return replace(setup, search=replace(setup.search, text=setup.other_text))


def _grey_crops(setup: Setup) -> Setup:
    return replace(setup, tools={**setup.tools, "image_crop": GreyCrop()})


def _swapped_crops(setup: Setup) -> Setup:
    return replace(setup, tools={**setup.tools, "image_crop": SwappedCrop(setup.scenes)})


def _empty_images(setup: Setup) -> Setup:
    return replace(setup, search=replace(setup.search, images=NoImages()))


def _empty_tools(setup: Setup) -> Setup:
    """Every tool answers, none says anything: what is left is an agent's guess level."""
    return _grey_crops(replace(setup, search=replace(setup.search, text=NoText(), images=NoImages())))


CONTROLS: dict[str, Control] = {
    "other_text_index": Control(("fact", "place", "brand", "both"), _other_text),
    "grey_crops": Control(("read", "brand", "both"), _grey_crops),
    "swapped_crops": Control(("read", "brand", "both"), _swapped_crops),
    "empty_image_search": Control(("place", "both"), _empty_images),
    "empty_tools": Control(KINDS, _empty_tools),
}
