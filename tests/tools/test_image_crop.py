"""The crop is the region that the model named, at the best resolution there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.images.drawing import far, grain
from tests.tools.worlds import context, picture
from vlagent import images
from vlagent.errors import ToolInputError
from vlagent.tools.base import ToolContext, ToolOutput
from vlagent.tools.image_crop import ImageCrop, ImageCropArguments, pixels_of


async def crop(bbox: list[float], at: ToolContext, index: int = 0) -> ToolOutput:
    return await ImageCrop().run(ImageCropArguments(bbox=bbox, image_index=index), at)


async def test_a_crop_has_the_originals_pixels_and_not_the_views(tmp_path: Path) -> None:
    drawn = grain(400, 200)
    output = await crop([250, 500, 750, 1000], context(picture(tmp_path, drawn)))
    assert far(images.load(output.images[0]), drawn[100:200, 100:300]) == 0
    assert "[250, 500, 750, 1000] of image 0 (200 x 100 pixels)" in output.text


async def test_a_crop_of_a_crop_is_cut_from_the_original(tmp_path: Path) -> None:
    drawn = grain(400, 200)
    at = context(picture(tmp_path, drawn))
    for expected in (drawn[:100, :200], drawn[50:100, 100:200]):
        bbox = [0, 0, 500, 500] if len(at.images) == 1 else [500, 500, 1000, 1000]
        output = await crop(bbox, at, len(at.images) - 1)
        assert far(images.load(output.images[0]), expected) == 0
        at.images.append(output.images[0])
    assert at.images[-1].path == at.images[0].path
    assert at.images[-1].box == (100, 50, 200, 100)


async def test_crop_source_view_cuts_what_the_model_saw(tmp_path: Path) -> None:
    drawn = grain(600, 300)
    ref = picture(tmp_path, drawn)
    output = await crop([0, 0, 500, 500], context(ref, crop_source="view", folder=tmp_path / "run"))
    seen = images.load(ref, (200, 100)).crop((0, 0, 100, 50))
    assert far(images.load(output.images[0]), seen) == 0
    assert Path(output.images[0].path).parent == tmp_path / "run"


async def test_a_crop_of_a_crop_of_the_view_is_cut_from_the_crops_view(tmp_path: Path) -> None:
    at = context(picture(tmp_path, grain(600, 300)), crop_source="view", folder=tmp_path / "run")
    first = (await crop([0, 0, 500, 500], at)).images[0]
    at.images.append(first)
    at.views.append((300, 150))
    second = (await crop([0, 0, 1000, 500], at, 1)).images[0]
    assert far(images.load(second), images.load(first, (300, 150)).crop((0, 0, 300, 75))) == 0


async def test_crops_of_views_need_no_folder_and_two_never_share_a_file(tmp_path: Path) -> None:
    at = context(picture(tmp_path, grain(600, 300)), crop_source="view")
    tool = ImageCrop()
    found = {
        (await tool.run(ImageCropArguments(bbox=[left, 0, 900, 900], image_index=0), at)).images[0].path
        for left in (0, 100, 200)
    }
    assert len(found) == 3
    assert all(Path(path).exists() for path in found)


async def test_the_run_folder_keeps_a_copy_of_each_crop(tmp_path: Path) -> None:
    drawn = grain(400, 200)
    at = context(picture(tmp_path, drawn), folder=tmp_path / "run" / "images")
    output = await crop([0, 0, 500, 500], at)
    (copy,) = (tmp_path / "run" / "images").iterdir()
    assert far(Image.open(copy), drawn[:100, :200]) == 0
    assert output.images[0].path == at.images[0].path


async def test_without_a_run_folder_nothing_is_written(tmp_path: Path) -> None:
    await crop([0, 0, 500, 500], context(picture(tmp_path, grain())))
    assert [path.name for path in tmp_path.iterdir()] == ["photo.png"]


@pytest.mark.parametrize("bbox", [[500, 0, 500, 900], [0, 9, 900, 9], [600, 0, 500, 900]])
async def test_a_box_without_area_is_the_models_fault(bbox: list[float], tmp_path: Path) -> None:
    with pytest.raises(ToolInputError, match="has no area"):
        await crop(bbox, context(picture(tmp_path, grain())))


async def test_a_picture_that_is_not_there_is_the_models_fault(tmp_path: Path) -> None:
    ref = picture(tmp_path, grain())
    with pytest.raises(ToolInputError, match="image_index 7: there is no such picture; there are images 0 to 1"):
        await crop([0, 0, 9, 9], context(ref, ref), 7)
    with pytest.raises(ToolInputError, match="there is only image 0"):
        await crop([0, 0, 9, 9], context(ref), 1)
    with pytest.raises(ToolInputError, match="no picture in this conversation"):
        await crop([0, 0, 9, 9], context())


@pytest.mark.parametrize(
    ("bbox", "box"),
    [
        ([500, 500, 500.1, 500.1], (198, 98, 202, 102)),
        ([0, 0, 0.1, 0.1], (0, 0, 4, 4)),
        ([999.9, 999.9, 1000, 1000], (396, 196, 400, 200)),
        ([0, 500, 1000, 501], (0, 98, 400, 102)),
        ([0, 0, 1000, 1000], (0, 0, 400, 200)),
    ],
)
def test_a_box_under_four_pixels_is_grown_around_its_centre(bbox: list[float], box: tuple[int, ...]) -> None:
    assert pixels_of(bbox, (400, 200)) == box


def test_a_box_of_a_picture_under_four_pixels_is_the_whole_side() -> None:
    assert pixels_of([400, 400, 500, 500], (2, 3)) == (0, 0, 2, 3)


corner = st.floats(0, 1000)


@given(corner, corner, corner, corner, st.integers(1, 3000), st.integers(1, 3000))
@settings(max_examples=300)
def test_every_box_with_area_is_inside_and_within_a_pixel_of_what_was_said(
    x1: float, y1: float, x2: float, y2: float, width: int, height: int
) -> None:
    if not (x1 < x2 and y1 < y2):
        return
    left, top, right, bottom = pixels_of([x1, y1, x2, y2], (width, height))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    for low, high, first, last, length in ((x1, x2, left, right, width), (y1, y2, top, bottom, height)):
        assert last - first >= min(4, length)
        if last - first > 4:
            assert abs(first - low * length / 1000) <= 0.51
            assert abs(last - high * length / 1000) <= 0.51


def test_the_schema_asks_for_four_numbers_and_a_picture() -> None:
    schema = ImageCropArguments.model_json_schema()
    assert schema["required"] == ["bbox", "image_index"]
    bbox = schema["properties"]["bbox"]
    assert (bbox["type"], bbox["minItems"], bbox["maxItems"]) == ("array", 4, 4)
    assert np.isclose(bbox["items"]["maximum"], 1000)
