"""A crop of a crop of a crop is a region of the file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tifffile
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.images.drawing import far, grain
from vlagent import images
from vlagent.types import Box

WIDTH, HEIGHT = 300, 200
shares = st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=4)


@pytest.fixture(scope="module", params=["png", "tif", "turned.tif"])
def picture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    path, drawn = tmp_path_factory.mktemp("crop") / f"a.{request.param}", grain(WIDTH, HEIGHT)
    if request.param == "png":
        Image.fromarray(drawn).save(path)
        return path, drawn
    turned = request.param == "turned.tif"
    tag = [(274, "H", 1, 6, True)] if turned else []
    tifffile.imwrite(path, drawn, photometric="rgb", tile=(32, 64), extratags=tag)
    return path, np.rot90(drawn, -1) if turned else drawn


@given(shares=shares)
@settings(max_examples=40)
def test_nested_crops_are_the_same_as_slices_of_the_whole(
    shares: list[tuple[float, float, float, float]], picture: tuple[Path, np.ndarray]
) -> None:
    path, expected = picture
    ref = images.probe(path)
    for share in shares:
        box = box_of(share, ref.width, ref.height)
        ref = images.crop(ref, box)
        expected = expected[box[1] : box[3], box[0] : box[2]]
    assert (ref.height, ref.width) == expected.shape[:2]
    assert far(images.load(ref), expected) == 0


def box_of(share: tuple[float, float, float, float], width: int, height: int) -> Box:
    left, top = int(share[0] * (width - 1)), int(share[1] * (height - 1))
    return left, top, left + 1 + int(share[2] * (width - 1 - left)), top + 1 + int(share[3] * (height - 1 - top))


@pytest.mark.parametrize("box", [(-1, 0, 9, 9), (0, 0, 301, 9), (5, 5, 5, 9), (9, 9, 5, 5), (0, 200, 9, 201)])
def test_a_box_outside_or_without_area_is_no_region(box: Box, tmp_path: Path) -> None:
    Image.fromarray(grain()).save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="is not inside a picture of 300 x 200 pixels"):
        images.crop(images.probe(tmp_path / "a.png"), box)
