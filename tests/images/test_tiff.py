"""TIFF files are read by region, whatever way they store their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.images.drawing import BLUE, GREEN, RED, YELLOW, corners, far, grain, quarters
from vlagent import images
from vlagent.errors import ServiceError, UserError
from vlagent.images import tiff

BOX = (37, 21, 211, 164)
STORED: dict[str, dict[str, Any]] = {
    "tiles": {"tile": (64, 48)},
    "tiles of another size than the picture": {"tile": (256, 512)},
    "strips": {"rowsperstrip": 7},
    "one strip": {"rowsperstrip": 200},
    "bigtiff": {"bigtiff": True, "tile": (64, 64)},
    "big endian": {"byteorder": ">", "tile": (64, 64)},
    "deflate": {"compression": "adobe_deflate", "tile": (64, 64), "predictor": True},
    "lzw": {"compression": "lzw", "rowsperstrip": 10},
    "zstd": {"compression": "zstd", "tile": (64, 64)},
    "packbits": {"compression": "packbits", "rowsperstrip": 10},
    "lossless jpeg 2000": {"compression": "jpeg2000", "compressionargs": {"level": 0}, "tile": (64, 64)},
    "lossless webp": {"compression": "webp", "compressionargs": {"lossless": True}, "tile": (64, 64)},
}


@pytest.mark.parametrize("stored", STORED)
def test_a_region_holds_exactly_the_stored_pixels(stored: str, tmp_path: Path) -> None:
    drawn = grain()
    tifffile.imwrite(tmp_path / "a.tif", drawn, photometric="rgb", **STORED[stored])
    ref = images.probe(tmp_path / "a.tif")
    left, top, right, bottom = BOX
    assert far(images.load(images.crop(ref, BOX)), drawn[top:bottom, left:right]) == 0
    assert far(images.load(ref), drawn) == 0


def test_separate_planes_are_put_together(tmp_path: Path) -> None:
    drawn = grain()
    planes = np.ascontiguousarray(drawn.transpose(2, 0, 1))
    tifffile.imwrite(tmp_path / "a.tif", planes, photometric="rgb", planarconfig="separate", tile=(64, 64))
    left, top, right, bottom = BOX
    assert far(images.load(images.crop(images.probe(tmp_path / "a.tif"), BOX)), drawn[top:bottom, left:right]) == 0


@pytest.mark.parametrize("photometric", ["rgb", "ycbcr"])
@pytest.mark.parametrize("layout", [{"tile": (32, 32)}, {"rowsperstrip": 16}])
def test_jpeg_inside_keeps_its_colours(photometric: str, layout: dict[str, Any], tmp_path: Path) -> None:
    drawn = np.asarray(quarters(192, 128).convert("YCbCr" if photometric == "ycbcr" else "RGB"))
    tifffile.imwrite(tmp_path / "a.tif", drawn, photometric=photometric, compression="jpeg", **layout)
    shown = images.load(images.probe(tmp_path / "a.tif"))
    assert far(corners(shown), [RED, BLUE, YELLOW, GREEN]) <= 4


def test_ycbcr_without_jpeg_keeps_its_colours(tmp_path: Path) -> None:
    quarters().convert("YCbCr").save(tmp_path / "a.tif")
    tifffile.imwrite(
        tmp_path / "b.tif", np.asarray(quarters().convert("YCbCr")), photometric="ycbcr", tile=(32, 32),
        extratags=[(530, "H", 2, (1, 1), True)],
    )  # fmt: skip
    for name in ("a.tif", "b.tif"):
        assert far(corners(images.load(images.probe(tmp_path / name))), [RED, BLUE, YELLOW, GREEN]) <= 3


def test_white_is_zero_where_the_file_says_so(tmp_path: Path) -> None:
    ramp = np.arange(256, dtype=np.uint8)[None].repeat(32, 0)
    tifffile.imwrite(tmp_path / "a.tif", ramp, photometric="miniswhite", tile=(16, 16))
    grey = np.asarray(images.load(images.probe(tmp_path / "a.tif")))[0, :, 0]
    assert far(grey, 255 - np.arange(256)) == 0


def test_a_palette_is_looked_up(tmp_path: Path) -> None:
    palette = quarters().quantize(4)
    table = np.zeros((3, 256), np.uint16)
    colours = np.asarray(palette.getpalette()[:12]).reshape(4, 3)
    table[:, :4] = colours.T * 257
    tifffile.imwrite(tmp_path / "a.tif", np.asarray(palette), photometric="palette", colormap=table, tile=(32, 32))
    assert far(corners(images.load(images.probe(tmp_path / "a.tif"))), [RED, BLUE, YELLOW, GREEN]) <= 2


def test_cmyk_tiles_keep_their_colours(tmp_path: Path) -> None:
    inks = np.asarray(quarters().convert("CMYK"))
    tifffile.imwrite(tmp_path / "a.tif", inks, photometric="separated", tile=(32, 32))
    assert far(corners(images.load(images.probe(tmp_path / "a.tif"))), [RED, BLUE, YELLOW, GREEN]) <= 3


def test_fax_pages_are_left_to_pillow(tmp_path: Path) -> None:
    page = Image.new("1", (64, 32), 1)
    page.paste(0, (0, 0, 32, 32))
    page.save(tmp_path / "fax.tif", compression="group4")
    shown = images.load(images.probe(tmp_path / "fax.tif"))
    assert (shown.getpixel((5, 5)), shown.getpixel((60, 5))) == ((0, 0, 0), (255, 255, 255))


def pyramid(path: Path, sub: bool) -> None:
    """Each level has its own colour, which tells who was read."""
    with tifffile.TiffWriter(path) as file:
        for level, colour in enumerate((RED, BLUE, YELLOW)):
            pixels = np.full((512 >> level, 768 >> level, 3), colour, np.uint8)
            more = {"subifds": 2} if sub and level == 0 else {"subfiletype": 1} if level else {}
            file.write(pixels, photometric="rgb", tile=(64, 64), metadata=None, **more)


@pytest.mark.parametrize("sub", [True, False])
def test_the_smallest_level_that_suffices_is_read(sub: bool, tmp_path: Path) -> None:
    pyramid(tmp_path / "a.tif", sub)
    ref = images.probe(tmp_path / "a.tif")
    assert (ref.width, ref.height) == (768, 512)
    seen = {
        width: images.load(ref, (width, width * 2 // 3)).getpixel((5, 5)) for width in (768, 390, 384, 200, 192, 30)
    }
    assert seen == {768: RED, 390: RED, 384: BLUE, 200: BLUE, 192: YELLOW, 30: YELLOW}
    region = images.crop(ref, (100, 100, 300, 300))
    assert images.load(region).getpixel((5, 5)) == RED
    assert images.load(region, (100, 100)).getpixel((5, 5)) == BLUE


def test_pages_of_a_document_are_no_pyramid(tmp_path: Path) -> None:
    with tifffile.TiffWriter(tmp_path / "a.tif") as file:
        file.write(np.full((512, 512, 3), RED, np.uint8), photometric="rgb", tile=(64, 64), metadata=None)
        file.write(np.full((256, 256, 3), BLUE, np.uint8), photometric="rgb", tile=(64, 64), metadata=None)
    assert images.load(images.probe(tmp_path / "a.tif"), (256, 256)).getpixel((5, 5)) == RED


@pytest.mark.parametrize("layout", [{"tile": (64, 64)}, {"rowsperstrip": 16}])
def test_a_view_that_is_made_in_blocks_is_the_average_too(
    layout: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiff, "BLOCK", 128)
    monkeypatch.setattr(tiff, "MAX_SEGMENT_PIXELS", 2**15)
    smooth = np.asarray(Image.fromarray(grain(40, 30)).resize((1000, 700), Image.Resampling.BICUBIC))
    tifffile.imwrite(tmp_path / "a.tif", smooth, photometric="rgb", **layout)
    ref = images.probe(tmp_path / "a.tif")
    for box in ((0, 0, 1000, 700), (13, 27, 913, 627)):
        region = smooth[box[1] : box[3], box[0] : box[2]]
        expected = Image.fromarray(region).resize((90, 60), Image.Resampling.LANCZOS)
        assert far(images.load(images.crop(ref, box), (90, 60)), expected) <= 6


def test_a_tiled_picture_is_no_bomb_however_big(tmp_path: Path) -> None:
    limit = images.max_pixels()
    tifffile.imwrite(tmp_path / "a.tif", grain(), photometric="rgb", tile=(64, 64))
    Image.fromarray(grain()).save(tmp_path / "a.png")
    try:
        images.set_max_pixels(50_000)
        ref = images.probe(tmp_path / "a.tif")
        assert images.load(ref, (150, 100)).size == (150, 100)
        assert images.load(images.crop(ref, (0, 0, 100, 100))).size == (100, 100)
        with pytest.raises(ServiceError, match="300 x 200 pixels at once are over the limit of 50,000"):
            images.load(ref)
        with pytest.raises(UserError, match="300 x 200 pixels are over the limit of 50,000"):
            images.probe(tmp_path / "a.png")
    finally:
        images.set_max_pixels(limit)


def test_one_strip_that_is_too_big_to_decode_counts_as_a_whole_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", grain(), photometric="rgb", rowsperstrip=200)
    monkeypatch.setattr(tiff, "MAX_SEGMENT_PIXELS", 1000)
    limit = images.max_pixels()
    try:
        images.set_max_pixels(50_000)
        with pytest.raises(UserError, match="over the limit"):
            images.probe(tmp_path / "a.tif")
    finally:
        images.set_max_pixels(limit)


def test_a_tile_that_the_file_leaves_out_is_black(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", (b"" for _ in range(4)), shape=(128, 128, 3), dtype="uint8", tile=(64, 64),
                     photometric="rgb", compression="adobe_deflate")  # fmt: skip
    assert images.load(images.probe(tmp_path / "a.tif")).getpixel((5, 5)) == (0, 0, 0)
