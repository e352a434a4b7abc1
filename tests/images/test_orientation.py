"""A picture is seen as a person sees it, whatever way the camera was held."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageOps

from tests.images.drawing import BLUE, RED, YELLOW, corners, far, grain, quarters
from vlagent import images
from vlagent.errors import UserError


def tagged(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "AVIF", "TIFF"])
def test_whole_pictures_and_crops_are_upright(kind: str, orientation: int, tmp_path: Path) -> None:
    path = tmp_path / "photo"
    lossless = {"lossless": True} if kind == "WEBP" else {}
    Image.fromarray(grain(120, 80)).save(path, kind, exif=tagged(orientation), **lossless)
    with Image.open(path) as opened:
        upright = np.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    ref = images.probe(path)
    assert (ref.height, ref.width) == upright.shape[:2]
    assert far(images.load(ref), upright) == 0
    box = (11, 23, ref.width - 7, ref.height - 5)
    assert far(images.load(images.crop(ref, box)), upright[box[1] : box[3], box[0] : box[2]]) == 0


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiled_tiff_is_read_by_region_in_its_upright_form(orientation: int, tmp_path: Path) -> None:
    stored = grain(120, 80)
    tag = [(274, "H", 1, orientation, True)]
    tifffile.imwrite(tmp_path / "a.tif", stored, photometric="rgb", tile=(16, 32), extratags=tag)
    marked = Image.fromarray(stored)
    marked.getexif()[0x0112] = orientation
    upright = np.asarray(ImageOps.exif_transpose(marked))
    ref = images.probe(tmp_path / "a.tif")
    assert far(images.load(ref), upright) == 0
    assert far(images.load(images.crop(ref, (3, 5, 71, 66))), upright[5:66, 3:71]) == 0


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """(kind, content) of each chunk of a PNG."""
    found, at = [], 8
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += length + 12
    return found


def png(parts: list[tuple[bytes, bytes]]) -> bytes:
    """A PNG of these chunks."""
    made = b"\x89PNG\r\n\x1a\n"
    for kind, content in parts:
        made += len(content).to_bytes(4, "big") + kind + content + zlib.crc32(kind + content).to_bytes(4, "big")
    return made


@pytest.mark.parametrize("held", [None, 6])
def test_the_header_of_a_png_is_read_without_its_pixels(held: int | None, tmp_path: Path) -> None:
    Image.fromarray(grain(120, 80)).save(tmp_path / "a.png", exif=tagged(held) if held else b"")
    parts = chunks((tmp_path / "a.png").read_bytes())
    noise = [(kind, b"no pixels" if kind == b"IDAT" else content) for kind, content in parts]
    (tmp_path / "b.png").write_bytes(png(noise))
    whole = images.probe(tmp_path / "a.png")
    header = images.probe(tmp_path / "b.png", decode=False)
    assert (header.width, header.height) == (whole.width, whole.height)
    with pytest.raises(UserError, match="not a picture that can be read"):
        images.probe(tmp_path / "b.png")


def test_a_png_may_say_behind_its_pixels_how_it_was_held(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.png", exif=tagged(6))
    parts = chunks((tmp_path / "a.png").read_bytes())
    said = [part for part in parts if part[0] == b"eXIf"]
    (tmp_path / "b.png").write_bytes(png([part for part in parts[:-1] if part not in said] + said + parts[-1:]))
    assert corners(images.load(images.probe(tmp_path / "b.png", decode=False)))[:2] == [YELLOW, RED]


def test_six_is_a_quarter_turn_to_the_right(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.png", exif=tagged(6))
    assert corners(images.load(images.probe(tmp_path / "a.png")))[:2] == [YELLOW, RED]
    quarters().save(tmp_path / "b.png", exif=tagged(8))
    assert corners(images.load(images.probe(tmp_path / "b.png")))[0] == BLUE


@pytest.mark.parametrize("value", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_ignored(value: int, tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.png", exif=tagged(value))
    assert corners(images.load(images.probe(tmp_path / "a.png")))[:2] == [RED, BLUE]


def test_broken_exif_is_ignored(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff\x01")
    ref = images.probe(tmp_path / "a.jpg")
    assert far(corners(images.load(ref))[0], RED) <= 12
