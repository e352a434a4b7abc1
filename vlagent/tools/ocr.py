"""Read the text of a picture, with the optional extra `vlagent[ocr]` (RapidOCR, models inside its wheel)."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import math
import threading
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from vlagent import images
from vlagent.errors import UserError
from vlagent.tools.base import Arguments, ToolContext, ToolOutput
from vlagent.tools.pictures import picture
from vlagent.types import Box, ImageRef

MAX_SIDE = 4096
"""A bigger picture is scaled down to this before it is read."""
MIN_CONFIDENCE = 0.5
MAX_LINES = 200
_LOCK = threading.Lock()


class OcrArguments(Arguments):
    """One picture of the context."""

    image_index: int = Field(default=0, ge=0, description="The number of the picture to read; crops work too.")


class Ocr:
    """The lines of text in a picture, from top to bottom."""

    name: ClassVar[str] = "ocr"
    description: ClassVar[str] = "Read the printed text of a picture, line by line."
    arguments: ClassVar[type[Arguments]] = OcrArguments

    def __init__(self, min_confidence: float = MIN_CONFIDENCE) -> None:
        if importlib.util.find_spec("rapidocr") is None or importlib.util.find_spec("onnxruntime") is None:
            raise UserError("tool 'ocr' needs the extra: pip install 'vlagent[ocr]'")
        self.min_confidence = min_confidence

    async def run(self, arguments: OcrArguments, context: ToolContext) -> ToolOutput:
        """Raises `ToolInputError` for a picture that is not there, `ServiceError` where its file broke."""
        ref = picture(context, arguments.image_index)
        lines = await asyncio.to_thread(_lines, ref, self.min_confidence)
        if not lines:
            return ToolOutput(text=f"No text was found in image {arguments.image_index}.")
        more = f"\n({len(lines) - MAX_LINES} more lines; crop a part to read them)" if len(lines) > MAX_LINES else ""
        return ToolOutput(text=f"Text in image {arguments.image_index}:\n" + "\n".join(lines[:MAX_LINES]) + more)


def word_boxes(ref: ImageRef, min_confidence: float = MIN_CONFIDENCE) -> list[Box]:
    """Where text is read in a picture, in its own pixels. Raises `UserError` without the extra, `ServiceError`."""
    Ocr(min_confidence)  # says what is missing
    factor = max(1.0, max(ref.width, ref.height) / MAX_SIDE)
    corners = [box * factor for box, _ in _read(ref, min_confidence)]
    return [
        (int(box[:, 0].min()), int(box[:, 1].min()), math.ceil(box[:, 0].max()), math.ceil(box[:, 1].max()))
        for box in corners
    ]


def _lines(ref: ImageRef, min_confidence: float) -> list[str]:
    return _in_reading_order(_read(ref, min_confidence))


def _read(ref: ImageRef, min_confidence: float) -> list[tuple[Any, str]]:
    """(corners [4, 2] in pixels of the working copy, text) of each piece that is read."""
    factor = min(1.0, MAX_SIDE / max(ref.width, ref.height))
    size = max(1, round(ref.width * factor)), max(1, round(ref.height * factor))
    pixels = np.asarray(images.load(ref, size))[..., ::-1]
    with _LOCK:
        found = _engine()(pixels)
    if found.boxes is None or found.txts is None:
        return []
    scored = zip(found.boxes, found.txts, found.scores, strict=True)
    return [(box, text) for box, text, score in scored if score >= min_confidence]


def _in_reading_order(rows: list[tuple[Any, str]]) -> list[str]:
    """Words whose centres lie on one height form a line, from left to right."""
    lines: list[list[tuple[float, float, float, str]]] = []
    placed = [(float(box[:, 1].mean()), float(np.ptp(box[:, 1])), float(box[:, 0].min()), text) for box, text in rows]
    for middle, height, left, text in sorted(placed):
        if lines and middle - lines[-1][0][0] < 0.5 * min(height, lines[-1][0][1]):
            lines[-1].append((middle, height, left, text))
        else:
            lines.append([(middle, height, left, text)])
    return [" ".join(word[3] for word in sorted(line, key=lambda word: word[2])) for line in lines]


@functools.cache
def _engine() -> Any:
    import logging

    from rapidocr import RapidOCR

    logging.getLogger("RapidOCR").setLevel(logging.ERROR)
    return RapidOCR(params={"Global.log_level": "error"})
