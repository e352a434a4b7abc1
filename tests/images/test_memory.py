from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vlagent import images
from vlagent.errors import ServiceError
from vlagent.images.memory import Decoded, decoded
from vlagent.types import ImageRef


def noise(path: Path, size: tuple[int, int] = (64, 48), seed: int = 0) -> ImageRef:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return ImageRef(path=str(path), width=size[0], height=size[1])


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.webp", "a.jpg"])
def test_a_second_look_gives_the_same_pixels_as_the_first(tmp_path: Path, name: str) -> None:
    whole = noise(tmp_path / name)
    regions = [whole, images.crop(whole, (3, 5, 40, 33)), images.crop(whole, (0, 0, 9, 9))]
    sizes = [(16, 12), (37, 28), (48, 48)]
    fresh = []
    for ref, size in zip(regions, sizes, strict=True):
        copy = tmp_path / f"copy-{len(fresh)}-{name}"
        copy.write_bytes((tmp_path / name).read_bytes())
        fresh.append(images.load(ref.model_copy(update={"path": str(copy)}), size))
    images.load(whole)
    for ref, size, expected in zip(regions, sizes, fresh, strict=True):
        assert np.array_equal(images.load(ref, size), expected)


def test_a_picture_is_kept_only_where_its_pixels_do_not_depend_on_the_size_asked_for(tmp_path: Path) -> None:
    png, jpeg = noise(tmp_path / "a.png"), noise(tmp_path / "a.jpg")
    images.load(png)
    images.load(jpeg)
    assert decoded.get(Path(png.path)) is not None
    assert decoded.get(Path(jpeg.path)) is None


def test_a_region_is_kept_whatever_the_format_and_only_where_it_was_read_whole(tmp_path: Path) -> None:
    jpeg, box = noise(tmp_path / "a.jpg"), (3, 5, 40, 33)
    region = images.crop(jpeg, box)
    images.load(region, (8, 6))
    assert decoded.get(Path(jpeg.path), box) is None
    images.load(region, (30, 20))
    kept = decoded.get(Path(jpeg.path), box)
    assert kept is not None
    assert np.array_equal(kept, np.asarray(images.load(jpeg))[5:33, 3:40])
    seen = images.load(region)
    seen.putpixel((0, 0), (1, 2, 3))
    assert np.array_equal(images.load(region), kept)


def test_the_smallest_regions_are_not_kept_without_bound(tmp_path: Path) -> None:
    known, path = Decoded(max_pixels=4 * 2**10), Path(noise(tmp_path / "a.png").path)
    boxes = [(x, 0, x + 1, 1) for x in range(9)]
    for box in boxes:
        known.put(path, Image.new("RGB", (1, 1)), box)
    assert sum(known.get(path, box) is not None for box in boxes) == 4


@pytest.mark.parametrize("shape", [(1, 1), (3, 70), (50, 40)])
def test_a_png_holds_every_pixel(shape: tuple[int, int], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    (tmp_path / "a.png").write_bytes(images.encode(Image.fromarray(pixels)))
    with Image.open(tmp_path / "a.png") as written:
        assert written.format == "PNG"
        assert np.array_equal(written, pixels)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    ref = noise(tmp_path / "a.png")
    before = images.load(ref)
    noise(tmp_path / "a.png", seed=1)
    os.utime(tmp_path / "a.png", ns=(1, 1))
    assert not np.array_equal(images.load(ref), before)


def test_a_file_that_is_gone_is_no_longer_known(tmp_path: Path) -> None:
    ref = noise(tmp_path / "a.png")
    images.load(ref)
    (tmp_path / "a.png").unlink()
    with pytest.raises(ServiceError, match=r"a\.png"):
        images.load(ref)


def test_the_oldest_pictures_make_room(tmp_path: Path) -> None:
    known = Decoded(max_pixels=2 * 64 * 48)
    paths = [Path(noise(tmp_path / f"{i}.png", seed=i).path) for i in range(3)]
    for path in paths[:2]:
        known.put(path, Image.open(path))
    known.get(paths[0])
    known.put(paths[2], Image.open(paths[2]))
    assert [known.get(path) is not None for path in paths] == [True, False, True]


def test_what_a_caller_does_to_its_picture_stays_its_own(tmp_path: Path) -> None:
    ref = noise(tmp_path / "a.png")
    first = images.load(ref)
    expected = np.array(first)
    first.putpixel((0, 0), (1, 2, 3))
    second = images.load(ref)
    second.putpixel((0, 0), (4, 5, 6))
    assert np.array_equal(images.load(ref), expected)
