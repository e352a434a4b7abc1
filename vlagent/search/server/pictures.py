"""A picture that a caller sent, searched for; thumbnails go back as bytes, since the caller sees none of our files."""

from __future__ import annotations

import asyncio
import base64
import io
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from vlagent import images
from vlagent.errors import ServiceError, UserError
from vlagent.files import writing
from vlagent.search.base import ImageQuery, ImageSearch
from vlagent.search.server.bodies import Refused
from vlagent.types import Hit, ImageRef

THUMBNAIL_SIDE = 256
"""Pixels."""


async def search_picture(search: ImageSearch, raw: bytes, top_k: int) -> dict[str, Any]:
    """{"hits": [{"title", "url", "file", "text", "score", "thumbnail"}]}, best first.

    Raises `Refused` for bytes that are no picture, and what the search raises.
    """
    with tempfile.TemporaryDirectory(prefix="vlagent-picture-") as folder:
        path = Path(folder) / "sent"
        ref = await asyncio.to_thread(_kept, path, raw)
        hits = await search.search(ImageQuery(image=ref, top_k=top_k))
        return {"hits": await asyncio.gather(*(asyncio.to_thread(_shown, hit) for hit in hits))}


def _kept(path: Path, raw: bytes) -> ImageRef:
    with writing(path):
        path.write_bytes(raw)
    try:
        return images.probe(path)
    except UserError as error:
        raise Refused(400, f"image: {str(error).partition(': ')[2]}") from None


def _shown(hit: Hit) -> dict[str, Any]:
    """The folder of a file is nobody's business."""
    source = hit.source
    return {
        "title": source.title,
        "url": source.url,
        "file": Path(source.file).name if source.file else None,
        "text": hit.text,
        "score": hit.score,
        "thumbnail": _thumbnail(hit.thumbnail) if hit.thumbnail else None,
    }


def _thumbnail(ref: ImageRef) -> str | None:
    """A small JPEG in base64; a picture that is gone leaves its title."""
    scale = min(1.0, THUMBNAIL_SIDE / max(ref.width, ref.height))
    size = (max(1, round(ref.width * scale)), max(1, round(ref.height * scale)))
    try:
        picture: Image.Image = images.load(ref, size)
    except ServiceError:
        return None
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
