"""Open a picture file by its content and read a region of it; what cannot be read is refused with one line."""

from __future__ import annotations

import functools
import math
import os
import stat
import struct
import warnings
import zlib
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from PIL import Image

from vlagent.images import colour, orientation, scaling
from vlagent.images.memory import decoded
from vlagent.types import Box

FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "DIB", "GIF", "HEIF", "AVIF", "JPEG2000", "PPM", "ICO")
"""What Pillow may try: formats that hold pixels only (no EPS or WMF, which run programs). MPO opens as JPEG."""
DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""What decoders raise on broken data; imagecodecs' errors are RuntimeErrors."""
WHOLE_ONLY = ("PNG", "BMP", "WEBP")
"""Formats without a reduced decoding: their pixels do not depend on the size that was asked for first."""
_DEFAULT_MAX_PIXELS = 2**28
_PNG_MAGIC_BYTES = 8
_PNG_WORDS = (b"eXIf", b"tEXt", b"zTXt", b"iTXt")
"""Chunks that may say how a picture was held."""
_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


class Unreadable(Exception):
    """Why a file cannot be used as a picture, in one line."""


class Source(Protocol):
    """An open picture file."""

    size: tuple[int, int]
    """(width, height) as stored."""
    orientation: int
    """How to turn the stored picture upright (EXIF)."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def check(self) -> None: ...

    def read(self, box: Box, size: tuple[int, int]) -> Image.Image: ...


def set_max_pixels(pixels: int) -> None:
    """The size from which a picture is refused as a decompression bomb (default 2^28), for the whole process.

    Pillow's own guard is set to the same number.
    """
    Image.MAX_IMAGE_PIXELS = pixels


def max_pixels() -> int:
    """The limit in force."""
    return Image.MAX_IMAGE_PIXELS or _DEFAULT_MAX_PIXELS


set_max_pixels(_DEFAULT_MAX_PIXELS)
# What Pillow warns of is dealt with here, with an error or by doing without; its words would disturb the terminal.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)


class PillowSource:
    """A file that Pillow decodes as a whole."""

    def __init__(self, path: Path) -> None:
        _register_formats()
        try:
            self._picture = Image.open(path, formats=FORMATS)
        except Image.DecompressionBombError:
            raise Unreadable(f"it has over {2 * max_pixels():,} pixels, the limit is {max_pixels():,}") from None
        self._path = path
        self.size = self._picture.size
        _refuse_bomb(self.size)
        self.orientation = _orientation_of(self._picture, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._picture.close()

    def check(self) -> None:
        """Decode everything, at the lowest resolution that a JPEG offers."""
        self._picture.draft("RGB", (1, 1))
        self._picture.load()

    def read(self, box: Box, size: tuple[int, int]) -> Image.Image:
        """The stored region `box` as 8-bit RGB of (width, height) `size`."""
        share = scaling.share(box, size)
        kept = decoded.get(self._path, box) if share > 0.5 else None
        if kept is None:
            whole = self._whole(share)
            if whole.size != self.size or box == (0, 0, *self.size):
                return _region(whole, self.size, box, size)
            kept = colour.to_rgb(whole.crop(box))
            decoded.put(self._path, kept, box)
        return _region(kept, kept.size, (0, 0, *kept.size), size)

    def _whole(self, share: float) -> Image.Image:
        """All of it, at the lowest resolution that a JPEG offers for `share`; in a mode whose regions can be cut."""
        if share <= 0.5:
            self._picture.draft(None, (math.ceil(self.size[0] * share), math.ceil(self.size[1] * share)))
        self._picture.load()
        whole = colour.to_rgb(self._picture) if colour.needs_whole(self._picture.mode) else self._picture
        if self._picture.format in WHOLE_ONLY and whole.mode == "RGB" and self.orientation == 1:
            decoded.put(self._path, whole if whole is not self._picture else whole.copy())
        return whole


class DecodedSource:
    """A file that was decoded a moment ago."""

    orientation = 1

    def __init__(self, picture: Image.Image) -> None:
        self._picture = picture
        self.size = picture.size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def check(self) -> None:
        """It was decoded."""

    def read(self, box: Box, size: tuple[int, int]) -> Image.Image:
        """As `PillowSource.read`, to the bit."""
        return _region(self._picture, self.size, box, size)


def _region(whole: Image.Image, stored: tuple[int, int], box: Box, size: tuple[int, int]) -> Image.Image:
    exact = scaling.scaled(box, stored, whole.size)
    outer = scaling.outward(exact, whole.size)
    return scaling.resize(colour.to_rgb(whole.crop(outer)), size, scaling.within(exact, outer))


def open_source(path: Path) -> Source:
    """Open a picture. Raises `Unreadable`, or one of `DAMAGED`, with the reason."""
    known = decoded.get(path)
    if known is not None:
        _refuse_bomb(known.size)
        return DecodedSource(known)
    head = _head(path)
    if head[:4] in _TIFF_MAGIC:
        return _open_tiff(path)
    return PillowSource(path)


def _open_tiff(path: Path) -> Source:
    from tifffile import TiffFileError

    from vlagent.images.tiff import TiffSource

    try:
        source = TiffSource(path)
    except TiffFileError as error:
        raise Unreadable(f"it is a broken TIFF ({error})") from None
    if source.by_region:
        return source
    with source:
        _refuse_bomb(source.size)
    return PillowSource(path)


def _head(path: Path) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise Unreadable("it is a folder")
    if not stat.S_ISREG(mode):
        raise Unreadable("it is not a regular file")
    with path.open("rb") as file:
        head = file.read(4)
    if not head:
        raise Unreadable("the file is empty")
    return head


def _refuse_bomb(size: tuple[int, int]) -> None:
    if size[0] * size[1] > max_pixels():
        raise Unreadable(
            f"{size[0]} x {size[1]} pixels are over the limit of {max_pixels():,};"
            " store it as a tiled TIFF, or raise the limit with vlagent.images.set_max_pixels"
        )


def _orientation_of(picture: Image.Image, path: Path) -> int:
    if picture.format == "TIFF":
        return 1  # Pillow turns these by itself
    header = picture.format == "PNG" and _says_all_before_its_pixels(path)
    try:
        # of a PNG without EXIF, Pillow decodes all pixels to look for one behind them
        exif = Image.Image.getexif(picture) if header else picture.getexif()
        return orientation.valid(exif.get(0x0112))
    except (SyntaxError, ValueError, KeyError, TypeError, struct.error):
        return 1  # broken EXIF says nothing


def _says_all_before_its_pixels(path: Path) -> bool:
    """Whether a PNG is whole and has no metadata behind its pixels."""
    pixels = False
    with path.open("rb", buffering=0) as file:
        file.seek(_PNG_MAGIC_BYTES)
        while len(head := file.read(8)) == 8:
            length, kind = struct.unpack(">I4s", head)
            if kind == b"IEND" or (pixels and kind in _PNG_WORDS):
                return bool(kind == b"IEND")
            pixels = pixels or kind == b"IDAT"
            file.seek(length + 4, os.SEEK_CUR)
    return False


@functools.cache
def _register_formats() -> None:
    from pi_heif import register_heif_opener

    register_heif_opener()
    Image.init()
