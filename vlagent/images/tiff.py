"""TIFF files far bigger than memory: only the tiles (or strips) of a region are read, at the level that suffices.

BigTIFF, pyramids (reduced pages and sub-IFDs), tiles and strips, every compression that imagecodecs knows.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import Image
from tifffile import PHOTOMETRIC

from vlagent.images import colour, orientation, scaling
from vlagent.types import Box

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # what matters of its complaints is raised here

MAX_SEGMENT_PIXELS = 2**25
"""A tile or strip is decoded whole; a bigger one cannot be read by region."""
BLOCK = 2048
"""Side in pixels of the blocks in which a big region is reduced."""
_MAX_LEVELS = 64
_FOR_PILLOW = (2, 3, 4, 6, 32771)
"""Compressions left to libtiff: fax, the old JPEG."""


@dataclass(frozen=True)
class _Grid:
    """The segments of one page: (height, width) of each and of the page."""

    page: Any

    @property
    def segment(self) -> tuple[int, int]:
        if self.page.is_tiled:
            return self.page.tilelength, self.page.tilewidth
        return min(self.page.rowsperstrip, self.page.imagelength), self.page.imagewidth

    @property
    def counts(self) -> tuple[int, int]:
        (rows, columns), page = self.segment, self.page
        return math.ceil(page.imagelength / rows), math.ceil(page.imagewidth / columns)

    @property
    def planes(self) -> int:
        return self.page.samplesperpixel if self.page.planarconfig == 2 else 1


class TiffSource:
    """One open TIFF file, read by region."""

    def __init__(self, path: Path) -> None:
        self._file = tifffile.TiffFile(path)
        page = self._file.pages[0]
        self.size = (int(page.imagewidth), int(page.imagelength))
        self.orientation = orientation.valid(getattr(page.tags.get(274), "value", 1))
        self._levels = sorted(self._find_levels(page), key=lambda level: -level.imagewidth)
        self._range: tuple[float, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    @property
    def by_region(self) -> bool:
        """Whether this reader knows the file's kind and can read a region without the rest."""
        page = self._levels[0]
        known = int(page.compression) not in _FOR_PILLOW and page.imagedepth == 1 and page.dtype is not None
        mixed = (
            page.photometric == PHOTOMETRIC.YCBCR and not _is_jpeg(page) and tuple(page.subsampling or (1, 1)) != (1, 1)
        )
        return known and not mixed and math.prod(_Grid(page).segment) <= MAX_SEGMENT_PIXELS

    def check(self) -> None:
        """Raise ValueError where the file is cut short or its first or last segment is damaged."""
        for page in self._levels:
            grid = _Grid(page)
            ends = np.asarray(page.dataoffsets, np.uint64) + np.asarray(page.databytecounts, np.uint64)
            if ends.size < math.prod(grid.counts) * grid.planes:
                raise ValueError("some tiles are missing")
            if int(ends.max(initial=0)) > self._file.filehandle.size:
                raise ValueError("the file is truncated")
        for x, y in ((0, 0), (self.size[0] - 1, self.size[1] - 1)):
            self._samples(self._levels[0], (x, y, x + 1, y + 1))

    def read(self, box: Box, size: tuple[int, int]) -> Image.Image:
        """The stored region `box` as 8-bit RGB of (width, height) `size`."""
        page = self._level_for(box, size)
        level = page.imagewidth, page.imagelength
        exact = scaling.scaled(box, self.size, level)
        outer = scaling.outward(exact, level)
        factor = _power_of_two((outer[2] - outer[0]) / size[0], (outer[3] - outer[1]) / size[1])
        return scaling.resize(self._reduced(page, outer, factor), size, scaling.within(exact, outer, factor))

    def _find_levels(self, page: Any) -> Iterator[Any]:
        yield page
        for found in self._reduced_pages(page):
            scale = page.imagewidth / max(found.imagewidth, 1)
            same_shape = abs(page.imagelength / scale - found.imagelength) <= 2
            same_pixels = (found.samplesperpixel, found.dtype) == (page.samplesperpixel, page.dtype)
            if found.imagewidth < page.imagewidth and same_shape and same_pixels:
                yield found

    def _reduced_pages(self, page: Any) -> Iterator[Any]:
        if page.subifds:
            yield from page.pages
        for number in range(1, _MAX_LEVELS):
            try:
                found = self._file.pages[number]
            except IndexError:
                return
            if found.is_reduced or (self._file.is_svs and found.is_tiled):
                yield found

    def _level_for(self, box: Box, size: tuple[int, int]) -> Any:
        """The smallest level that still has at least the pixels that are asked for."""
        share = scaling.share(box, size)
        enough = [level for level in self._levels if level.imagewidth >= share * self.size[0] * 0.999]
        return enough[-1] if enough else self._levels[0]

    def _reduced(self, page: Any, box: Box, factor: int) -> Image.Image:
        """The region shrunk by an integer factor, block by block, so that it never lies in memory whole."""
        if factor == 1:
            return self._rgb(page, box)
        left, top, right, bottom = box
        canvas = Image.new("RGB", (math.ceil((right - left) / factor), math.ceil((bottom - top) / factor)))
        step_x, step_y = _block(page, factor)
        for y in range(top, bottom, step_y):
            for x in range(left, right, step_x):
                block = self._rgb(page, (x, y, min(x + step_x, right), min(y + step_y, bottom)))
                canvas.paste(block.reduce(factor), ((x - left) // factor, (y - top) // factor))
        return canvas

    def _rgb(self, page: Any, box: Box) -> Image.Image:
        return colour.to_rgb(self._picture(page, self._samples(page, box)))

    def _samples(self, page: Any, box: Box) -> NDArray[Any]:
        """Samples of a region, [height, width, samples]."""
        left, top, right, bottom = box
        region = np.full((bottom - top, right - left, page.samplesperpixel), page.nodata, page.dtype)
        grid = _Grid(page)
        (rows, columns), (down, across) = grid.segment, grid.counts
        for plane in range(grid.planes):
            for row in range(top // rows, math.ceil(bottom / rows)):
                for column in range(left // columns, math.ceil(right / columns)):
                    index = (plane * down + row) * across + column
                    segment = self._segment(page, index)
                    if segment is not None:
                        part = region[..., plane : plane + 1] if grid.planes > 1 else region
                        _paste(part, segment, (column * columns - left, row * rows - top))
        return region

    def _segment(self, page: Any, index: int) -> NDArray[Any] | None:
        """One decoded tile or strip, [height, width, samples]; None where the file holds nothing (sparse)."""
        count = page.databytecounts[index]
        if not count:
            return None
        handle = self._file.filehandle
        handle.seek(page.dataoffsets[index])
        data = handle.read(count)
        if len(data) < count:
            raise ValueError("the file is truncated")
        decoded, _, shape = page.decode(data, index, jpegtables=page.jpegtables, jpegheader=page.jpegheader)
        return None if decoded is None else decoded[0, : shape[1], : shape[2]]

    def _picture(self, page: Any, samples: NDArray[Any]) -> Image.Image:
        """Samples as a Pillow picture of their own colour space."""
        kind = page.photometric
        if kind == PHOTOMETRIC.PALETTE and page.colormap is not None:
            table = (np.asarray(page.colormap).T >> 8).astype(np.uint8)
            return Image.fromarray(table[samples[..., 0]])
        bits = page.bitspersample if isinstance(page.bitspersample, int) else max(page.bitspersample)
        values = colour.to_bytes(samples, bits, *self._scale(page))
        if kind == PHOTOMETRIC.MINISWHITE:
            values = np.uint8(255) - values
        return _as_picture(page, values)

    def _scale(self, page: Any) -> tuple[float | None, float | None]:
        """The range of samples that are not unsigned integers, from the smallest level, the same for every region."""
        if page.dtype.kind in "ub":
            return None, None
        if self._range is None:
            small = self._levels[-1]
            if small.imagewidth * small.imagelength > MAX_SEGMENT_PIXELS:
                return 0.0, 1.0
            self._range = colour.value_range(self._samples(small, (0, 0, small.imagewidth, small.imagelength)))
        return self._range


def _power_of_two(*ratios: float) -> int:
    return 1 << max(0, int(math.log2(max(1.0, min(ratios)))))


def _block(page: Any, factor: int) -> tuple[int, int]:
    """(width, height) of a block: whole segments where that is possible, always a multiple of the factor."""
    rows, columns = _Grid(page).segment
    width = max(columns, BLOCK // columns * columns)
    height = max(rows, BLOCK // rows * rows) if page.is_tiled else max(rows, MAX_SEGMENT_PIXELS // 4 // columns)
    return math.ceil(width / factor) * factor, math.ceil(height / factor) * factor


def _paste(region: NDArray[Any], segment: NDArray[Any], at: tuple[int, int]) -> None:
    """Copy the part of a segment that lies in the region; `at` is its (x, y) there, maybe negative."""
    x, y = at
    height, width = segment.shape[:2]
    x1, y1 = max(x, 0), max(y, 0)
    x2, y2 = min(x + width, region.shape[1]), min(y + height, region.shape[0])
    if x1 < x2 and y1 < y2:
        region[y1:y2, x1:x2] = segment[y1 - y : y2 - y, x1 - x : x2 - x, : region.shape[2]]


def _as_picture(page: Any, values: NDArray[np.uint8]) -> Image.Image:
    kind, count = page.photometric, values.shape[2]
    has_alpha = bool(page.extrasamples) and int(page.extrasamples[0]) in (1, 2)
    if kind == PHOTOMETRIC.SEPARATED and count >= 4:
        picture = _from(values[..., :4], "CMYK")
        if page.iccprofile:
            picture.info["icc_profile"] = page.iccprofile
        return picture
    if count < 3:
        return _from(values, "LA") if count == 2 and has_alpha else _from(values[..., 0], "L")
    if count >= 4 and has_alpha and kind == PHOTOMETRIC.RGB:
        return _from(values[..., :4], "RGBa" if int(page.extrasamples[0]) == 1 else "RGBA")
    if kind == PHOTOMETRIC.YCBCR and not _is_jpeg(page):
        return _from(values[..., :3], "YCbCr")
    if kind == PHOTOMETRIC.CIELAB:
        return _from(values[..., :3], "LAB")
    return _from(values[..., :3], "RGB")


def _is_jpeg(page: Any) -> bool:
    return int(page.compression) in (7, 34892, 33007)


def _from(values: NDArray[np.uint8], mode: str) -> Image.Image:
    packed = np.ascontiguousarray(values)
    return Image.frombuffer(mode, (packed.shape[1], packed.shape[0]), packed, "raw", mode, 0, 1)
