"""Every pixel format becomes 8-bit RGB: scaled, not clipped, and transparency lies on white."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from tests.images.drawing import BLUE, RED, corners, far, quarters
from vlagent import images


def shown(path: Path) -> Image.Image:
    return images.load(images.probe(path))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk_is_not_inverted(kind: str, tmp_path: Path) -> None:
    quarters().convert("CMYK").save(tmp_path / "print", kind)
    assert far(corners(shown(tmp_path / "print")), corners(quarters())) <= 12


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_a_profile_that_does_not_fit_leaves_cmyk_readable(kind: str, tmp_path: Path) -> None:
    wrong = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for profile in (wrong, b"no profile"):
        quarters().convert("CMYK").save(tmp_path / "print", kind, icc_profile=profile)
        assert far(corners(shown(tmp_path / "print")), corners(quarters())) <= 12


def test_grey_of_sixteen_bits_is_scaled(tmp_path: Path) -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16)[None].repeat(8, 0)
    cv2.imwrite(str(tmp_path / "deep.png"), ramp)
    tifffile.imwrite(tmp_path / "deep.tif", ramp)
    for name in ("deep.png", "deep.tif"):
        grey = np.asarray(shown(tmp_path / name))
        assert far(grey[0, :, 0], np.arange(256)) <= 1
        assert far(grey[..., 0], grey[..., 2]) == 0


def test_colour_of_sixteen_bits_is_scaled(tmp_path: Path) -> None:
    deep = np.asarray(quarters()).astype(np.uint16) * 257
    cv2.imwrite(str(tmp_path / "deep.png"), deep[..., ::-1])
    tifffile.imwrite(tmp_path / "deep.tif", deep, photometric="rgb", tile=(32, 32))
    for name in ("deep.png", "deep.tif"):
        assert far(shown(tmp_path / name), quarters()) <= 1


@pytest.mark.parametrize("top", [1.0, 255.0, 65535.0])
def test_floating_point_is_scaled_the_same_way_in_every_region(top: float, tmp_path: Path) -> None:
    ramp = np.linspace(0, top, 256, dtype=np.float32)[None].repeat(16, 0)
    tifffile.imwrite(tmp_path / "float.tif", ramp, tile=(16, 16))
    ref = images.probe(tmp_path / "float.tif")
    assert far(np.asarray(images.load(ref))[0, :, 0], np.arange(256)) <= 1
    part = images.load(images.crop(ref, (100, 0, 120, 16)))
    assert far(np.asarray(part)[0, :, 0], np.arange(100, 120)) <= 1


def test_signed_samples_are_stretched_over_their_own_range(tmp_path: Path) -> None:
    ramp = np.linspace(-1000, 3000, 256).astype(np.int16)[None].repeat(16, 0)
    tifffile.imwrite(tmp_path / "heights.tif", ramp)
    grey = np.asarray(shown(tmp_path / "heights.tif"))[0, :, 0]
    assert far(grey, np.arange(256)) <= 1


def test_transparency_lies_on_white(tmp_path: Path) -> None:
    half = Image.new("RGBA", (10, 10), (*RED, 128))
    half.paste((0, 0, 0, 0), (5, 0, 10, 10))
    on_white = tuple(round(channel * 128 / 255 + 255 * 127 / 255) for channel in RED)
    half.save(tmp_path / "half.png")
    half.save(tmp_path / "half.tif")
    half.save(tmp_path / "half.webp", lossless=True)
    for name in ("half.png", "half.tif", "half.webp"):
        picture = shown(tmp_path / name)
        assert far(picture.getpixel((2, 5)), on_white) <= 1
        assert picture.getpixel((7, 5)) == (255, 255, 255)


def test_grey_with_transparency_lies_on_white(tmp_path: Path) -> None:
    veil = Image.new("LA", (10, 10), (0, 51))
    veil.save(tmp_path / "veil.png")
    tifffile.imwrite(tmp_path / "veil.tif", np.asarray(veil), photometric="minisblack", extrasamples=["unassalpha"])
    for name in ("veil.png", "veil.tif"):
        assert far(shown(tmp_path / name).getpixel((5, 5)), (204, 204, 204)) <= 1


def test_premultiplied_alpha_is_undone(tmp_path: Path) -> None:
    pixels = np.full((32, 32, 4), (100, 15, 20, 128), np.uint8)
    tifffile.imwrite(tmp_path / "pre.tif", pixels, photometric="rgb", extrasamples=["assocalpha"])
    assert far(shown(tmp_path / "pre.tif").getpixel((5, 5)), (227, 142, 147)) <= 2


def test_a_transparent_colour_of_palette_grey_and_rgb_is_white(tmp_path: Path) -> None:
    palette = quarters().quantize(8)
    index = palette.getpixel((10, 10))
    palette.save(tmp_path / "palette.png", transparency=index)
    palette.save(tmp_path / "palette.gif", transparency=index)
    quarters().save(tmp_path / "rgb.png", transparency=RED)
    for name in ("palette.png", "palette.gif", "rgb.png"):
        picture = shown(tmp_path / name)
        assert picture.getpixel((10, 10)) == (255, 255, 255)
        assert far(picture.getpixel((80, 10)), BLUE) <= 4


@pytest.mark.parametrize("name", ["bits.png", "bits.tif", "bits.bmp"])
def test_one_bit_is_black_and_white(name: str, tmp_path: Path) -> None:
    bits = Image.new("1", (20, 10), 1)
    bits.paste(0, (0, 0, 10, 10))
    bits.save(tmp_path / name)
    assert shown(tmp_path / name).getpixel((5, 5)) == (0, 0, 0)
    assert shown(tmp_path / name).getpixel((15, 5)) == (255, 255, 255)


def test_lab_is_converted_through_its_own_colour_space(tmp_path: Path) -> None:
    srgb, lab = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
    ImageCms.profileToProfile(quarters(), srgb, lab, outputMode="LAB").save(tmp_path / "lab.tif")
    assert far(corners(shown(tmp_path / "lab.tif")), corners(quarters())) <= 12


@pytest.mark.parametrize("maxval", [255, 1023, 65535])
def test_ppm_of_any_depth_is_scaled(maxval: int, tmp_path: Path) -> None:
    values = [0, maxval // 2, maxval]
    (tmp_path / "a.pgm").write_text(f"P2\n3 1\n{maxval}\n" + " ".join(map(str, values)) + "\n")
    grey = np.asarray(shown(tmp_path / "a.pgm"))[0, :, 0]
    assert far(grey, [0, 127, 255]) <= 1
