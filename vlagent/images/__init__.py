"""Pictures by address: their size, their pixels, a region of them, as bytes for a wire.

Everything here blocks and is safe in threads; asynchronous callers use `in_thread`.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from vlagent.errors import ServiceError, UserError
from vlagent.images import orientation
from vlagent.images.sources import DAMAGED, Unreadable, max_pixels, open_source, set_max_pixels
from vlagent.images.stored import is_jpeg, stored_jpeg
from vlagent.images.threads import in_thread
from vlagent.types import Box, ImageRef

__all__ = ["crop", "data_url", "encode", "in_thread", "load", "max_pixels", "probe", "set_max_pixels"]

PNG_PIXELS = 2**20
"""Pictures of at most this size travel without loss (PNG), bigger ones as JPEG."""
LOSSY_PIXELS = 2**18
"""The same of pictures whose file is a JPEG: a PNG would keep its artefacts exactly, at ten times the cost."""


def probe(path: str | os.PathLike[str], *, decode: bool = True) -> ImageRef:
    """Address a picture file; its size is that after EXIF orientation.

    With `decode` the pixels are read once, so that a truncated file is refused here and not in mid-run; without, only
    the header is. Raises `UserError` with one line for what is missing, no picture, damaged or too big.
    """
    try:
        with open_source(Path(path)) as source:
            width, height = orientation.upright_size(source.size, source.orientation)
            if decode:
                source.check()
            return ImageRef(path=str(Path(path).absolute()), width=width, height=height)
    except FileNotFoundError:
        raise UserError(f"{path}: no such picture") from None
    except (Unreadable, *DAMAGED) as error:
        raise UserError(f"{_shown(path)}: not a picture that can be read ({_reason(error)})") from error


def load(ref: ImageRef, size: tuple[int, int] | None = None) -> Image.Image:
    """The pixels of a picture or of its region: RGB, 8 bits a channel, of (width, height) `size`.

    `size` None keeps the resolution. Only what is needed is decoded: the tiles of a region of a TIFF, the pyramid level
    or the JPEG scale that suffices. Raises `ServiceError` where the file vanished, changed or broke since `probe`.
    """
    wanted = size or (ref.width, ref.height)
    try:
        with open_source(Path(ref.path)) as source:
            upright = orientation.upright_size(source.size, source.orientation)
            _refuse_change(ref, upright)
            _refuse_bomb(wanted)
            box = orientation.stored_box(ref.box or (0, 0, *upright), source.size, source.orientation)
            stored = source.read(box, orientation.upright_size(wanted, source.orientation))
            return orientation.turn(stored, source.orientation)
    except (Unreadable, *DAMAGED) as error:
        raise ServiceError("image", f"{ref.path} cannot be read ({_reason(error)})") from error


def crop(ref: ImageRef, box: Box) -> ImageRef:
    """A region of a picture (or of a region), in that picture's own pixels, as an address in the source file.

    Raises `ValueError` for a box without area or not inside.
    """
    left, top, right, bottom = box
    if not (0 <= left < right <= ref.width and 0 <= top < bottom <= ref.height):
        raise ValueError(f"box {box} is not inside a picture of {ref.width} x {ref.height} pixels")
    x, y = ref.box[:2] if ref.box else (0, 0)
    inner = (left + x, top + y, right + x, bottom + y)
    return ImageRef(path=ref.path, width=right - left, height=bottom - top, box=inner)


def encode(image: Image.Image, format: Literal["PNG", "JPEG"] = "PNG") -> bytes:
    """The bytes of an RGB picture file: PNG, quick and without loss; JPEG at quality 95, full colour resolution."""
    if format == "PNG":
        return _png(image.convert("RGB"))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=95, subsampling=0)
    return buffer.getvalue()


def _png(image: Image.Image) -> bytes:
    """One filter for all lines: half the time of Pillow, which tries five for each, and the same size."""
    import imagecodecs

    return bytes(imagecodecs.png_encode(np.asarray(image), 1, filter=imagecodecs.PNG.FILTER.PAETH))


def data_url(ref: ImageRef, size: tuple[int, int] | None = None, *, lossless: bool = False) -> str:
    """A picture as `data:image/...;base64,...` at (width, height) `size`; small ones are `lossless` anyway.

    A JPEG file that has this size already travels as it is, without its metadata.
    """
    raw = _stored(ref, size or (ref.width, ref.height))
    if raw is not None:
        return f"data:image/jpeg;base64,{base64.b64encode(raw).decode('ascii')}"
    image = load(ref, size)
    most = LOSSY_PIXELS if is_jpeg(ref) else PNG_PIXELS
    kind: Literal["PNG", "JPEG"] = "PNG" if lossless or image.width * image.height <= most else "JPEG"
    return f"data:image/{kind.lower()};base64,{base64.b64encode(encode(image, kind)).decode('ascii')}"


def _stored(ref: ImageRef, size: tuple[int, int]) -> bytes | None:
    try:
        return stored_jpeg(ref, size)
    except DAMAGED:
        return None  # `load` says what is wrong with it


def _refuse_change(ref: ImageRef, upright: tuple[int, int]) -> None:
    inside = ref.box is None or (ref.box[2] <= upright[0] and ref.box[3] <= upright[1])
    if not inside or (ref.box is None and upright != (ref.width, ref.height)):
        raise Unreadable(f"it is now {upright[0]} x {upright[1]} pixels, it has changed")


def _refuse_bomb(wanted: tuple[int, int]) -> None:
    if wanted[0] * wanted[1] > max_pixels():
        raise Unreadable(f"{wanted[0]} x {wanted[1]} pixels at once are over the limit of {max_pixels():,}")


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    if type(error).__name__ == "UnidentifiedImageError":
        return "its content is of no known picture format"
    return " ".join((str(error) or type(error).__name__).split())


def _shown(path: str | os.PathLike[str]) -> str:
    return str(path).replace("\0", "\\0")
