"""Every file format, told by its content, gives the right pixels in the right place."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.images.drawing import BLUE, GREEN, HEIGHT, RED, WIDTH, YELLOW, corners, far, grain, quarters
from vlagent import images

COLOURS = [RED, BLUE, YELLOW, GREEN]
FORMATS = {"JPEG": 12, "MPO": 12, "PNG": 0, "WEBP": 12, "TIFF": 0, "BMP": 0, "GIF": 4, "AVIF": 12, "PPM": 0}
"""Pillow's name -> how far a colour may be off."""


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_shows_its_colours_and_its_crops(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "picture"
    more = {"save_all": True, "append_images": [Image.new("RGB", (WIDTH, HEIGHT))]} if kind == "MPO" else {}
    quarters().save(path, kind, **more)
    ref = images.probe(path)
    assert (ref.width, ref.height, ref.box) == (WIDTH, HEIGHT, None)
    shown = images.load(ref)
    assert shown.mode == "RGB"
    assert far(corners(shown), COLOURS) <= FORMATS[kind]
    below = images.load(images.crop(ref, (WIDTH // 2 + 4, HEIGHT // 2 + 4, WIDTH - 4, HEIGHT - 4)))
    assert below.size == (WIDTH // 2 - 8, HEIGHT // 2 - 8)
    assert far(corners(below), [GREEN] * 4) <= FORMATS[kind]


def test_heic_shows_its_colours_and_is_upright() -> None:
    folder = Path(__file__).parent / "data"
    plain = images.load(images.probe(folder / "quadrants.heic"))
    assert plain.size == (64, 48)
    assert far(corners(plain), [RED, BLUE, YELLOW, BLUE]) <= 3
    turned = images.probe(folder / "turned.heic")
    assert (turned.width, turned.height) == (48, 64)
    assert far(corners(images.load(turned)), [YELLOW, RED, BLUE, BLUE]) <= 3


@pytest.mark.parametrize(
    ("written", "named"), [("PNG", "a.jpg"), ("JPEG", "a.png"), ("TIFF", "a.gif"), ("WEBP", "a.txt")]
)
def test_the_content_decides_and_not_the_extension(written: str, named: str, tmp_path: Path) -> None:
    quarters().save(tmp_path / named, written)
    assert far(corners(images.load(images.probe(tmp_path / named))), COLOURS) <= 12


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_is_its_first_frame(kind: str, tmp_path: Path) -> None:
    second = Image.new("RGB", (WIDTH, HEIGHT), "black")
    quarters().save(tmp_path / "moving", kind, save_all=True, append_images=[second])
    assert far(corners(images.load(images.probe(tmp_path / "moving"))), COLOURS) <= 12


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (3, 4000)])
def test_extreme_aspect_ratios_load_at_any_size(kind: str, size: tuple[int, int], tmp_path: Path) -> None:
    Image.new("RGB", size, BLUE).save(tmp_path / "thin", kind)
    ref = images.probe(tmp_path / "thin")
    assert (ref.width, ref.height) == size
    for view in ((1, 1), (256, 256), (size[0] * 2, size[1] * 2)):
        shown = images.load(ref, view)
        assert shown.size == view
        assert far(shown.getpixel((0, 0)), BLUE) <= 12


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_smaller_view_is_the_average_of_the_pixels_and_not_a_sample(kind: str, tmp_path: Path) -> None:
    board = np.indices((400, 400)).sum(0) % 2 * 255
    Image.fromarray(board.astype(np.uint8)).convert("RGB").save(tmp_path / "board", kind)
    assert far(images.load(images.probe(tmp_path / "board"), (25, 25)), np.full((25, 25, 3), 127)) <= 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_small_view_of_a_region_lies_exactly_where_the_region_is(kind: str, tmp_path: Path) -> None:
    Image.fromarray(grain(805, 603)).resize((1605, 1203)).save(tmp_path / "photo", kind)
    ref = images.crop(images.probe(tmp_path / "photo"), (101, 203, 1301, 1003))
    whole = images.load(ref).resize((150, 100), Image.Resampling.LANCZOS)
    difference = np.abs(np.asarray(images.load(ref, (150, 100)), int) - np.asarray(whole, int)).mean()
    moved = np.abs(np.roll(np.asarray(whole, int), 1, 1) - np.asarray(whole, int)).mean()
    assert difference < 3 < moved / 2


def test_threads_share_nothing(tmp_path: Path) -> None:
    drawn = grain()
    for kind in ("PNG", "TIFF"):
        Image.fromarray(drawn).save(tmp_path / kind, kind)
    wrong: list[str] = []

    def look(seed: int) -> None:
        ref = images.probe(tmp_path / ("PNG", "TIFF")[seed % 2])
        for step in range(10):
            x, y = (seed * 17 + step * 13) % 200, (seed * 7 + step * 11) % 100
            if far(images.load(images.crop(ref, (x, y, x + 90, y + 90))), drawn[y : y + 90, x : x + 90]):
                wrong.append(f"{ref.path} at {x}, {y}")

    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_small_pictures_travel_without_loss_and_big_ones_as_jpeg(tmp_path: Path) -> None:
    drawn = grain()
    Image.fromarray(drawn).save(tmp_path / "a.png")
    ref = images.probe(tmp_path / "a.png")
    import base64
    import io

    kind, _, code = images.data_url(ref).partition(",")
    assert kind == "data:image/png;base64"
    assert far(Image.open(io.BytesIO(base64.b64decode(code))), drawn) == 0
    kind, _, code = images.data_url(ref, (1200, 1000)).partition(",")
    assert kind == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(code))).size == (1200, 1000)
