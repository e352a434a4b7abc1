"""A JPEG file as it is, without what says where and by whom it was taken: nothing is decoded, nothing is lost."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from vlagent.images import orientation
from vlagent.types import ImageRef

MAX_BYTES_A_PIXEL = 2.0
"""A file that is larger for its picture is smaller when it is encoded anew."""
ORIENTATION = 0x0112
"""The EXIF tag."""
_KEPT = frozenset([0xE0, 0xEE])
"""JFIF, and Adobe's colour transform: without these the pixels may be read otherwise."""
_SCAN = 0xDA


def stored_jpeg(ref: ImageRef, size: tuple[int, int]) -> bytes | None:
    """The file's own bytes, if they are a whole, upright RGB or grey JPEG of (width, height) `size`, else None.

    EXIF, comments and other application segments are left out. Raises `OSError` where the file is gone.
    """
    if ref.box is not None or not is_jpeg(ref):
        return None
    path = Path(ref.path)
    if path.stat().st_size > MAX_BYTES_A_PIXEL * size[0] * size[1]:
        return None
    with Image.open(path, formats=("JPEG",)) as picture:
        plain = picture.format == "JPEG" and picture.mode in ("RGB", "L") and picture.size == size
        if not plain or orientation.valid(picture.getexif().get(ORIENTATION)) != 1:
            return None
    return without_metadata(path.read_bytes())


def is_jpeg(ref: ImageRef) -> bool:
    """Whether a file says by its name that it is a JPEG."""
    return ref.path.lower().endswith((".jpg", ".jpeg"))


def without_metadata(raw: bytes) -> bytes | None:
    """The segments that make the pixels, from the first to the end of the picture; None where they cannot be told."""
    if raw[:2] != b"\xff\xd8" or not raw.rstrip(b"\0").endswith(b"\xff\xd9"):
        return None
    kept, at = [raw[:2]], 2
    while at + 4 <= len(raw) and raw[at] == 0xFF:
        kind, length = raw[at + 1], int.from_bytes(raw[at + 2 : at + 4], "big")
        if kind == _SCAN:
            return b"".join([*kept, raw[at:]])
        if kind in _KEPT or not (0xE0 <= kind <= 0xEF or kind == 0xFE):
            kept.append(raw[at : at + 2 + length])
        at += 2 + length
    return None
