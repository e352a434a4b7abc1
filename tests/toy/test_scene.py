from __future__ import annotations

import random

import numpy as np
import pytest
from PIL import Image

from vlagent.toy.landmark import landmark
from vlagent.toy.lexicon import (
    BRANDS,
    COLOURS,
    LETTERS,
    LEVELS,
    OPEN_BRANDS,
    PASSAGE_BRANDS,
    PLACES_PER_SPLIT,
    SPARE_BRANDS,
    SPLITS,
    places_of,
)
from vlagent.toy.questions import window
from vlagent.toy.reading import read_sign
from vlagent.toy.scene import Cast, Scene, draw_scene
from vlagent.toy.signs import Sign


def drawn(seed: int, level: int = 2, canvas: int = 640, cast: Cast | None = None) -> Scene:
    return draw_scene(random.Random(seed), level, canvas, cast)


def test_the_same_seed_draws_the_same_bytes_and_another_does_not() -> None:
    assert drawn(1).image.tobytes() == drawn(1).image.tobytes() != drawn(2).image.tobytes()


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_has_its_number_of_signs_each_under_a_twentieth_of_the_area(level: int) -> None:
    for seed in range(10):
        scene = drawn(seed, level)
        assert len(scene.signs) == LEVELS[level].signs
        assert (
            len({sign.colour for sign in scene.signs}) == len({sign.name for sign in scene.signs}) == len(scene.signs)
        )
        for sign in scene.signs:
            assert area(sign) < 0.05 * scene.canvas**2
            assert sign.box[0] <= sign.text_box[0] < sign.text_box[2] <= sign.box[2]
            assert sign.box[1] <= sign.text_box[1] < sign.text_box[3] <= sign.box[3]


def area(sign: Sign) -> int:
    return (sign.box[2] - sign.box[0]) * (sign.box[3] - sign.box[1])


def test_a_larger_canvas_shows_the_same_scene() -> None:
    small, large = drawn(5), drawn(5, canvas=1280)
    for one, other in zip(small.signs, large.signs, strict=True):
        assert (one.name, one.colour) == (other.name, other.colour)
        assert other.box == tuple(2 * side for side in one.box)
    shrunk = np.asarray(large.image.resize((640, 640), Image.Resampling.BOX), dtype=float)
    assert np.abs(shrunk - np.asarray(small.image, dtype=float)).mean() < 3


def test_a_larger_canvas_is_drawn_finer_and_not_blown_up() -> None:
    large = drawn(5, canvas=1280).image
    blown_up = drawn(5).image.resize((1280, 1280), Image.Resampling.NEAREST)
    assert np.abs(np.asarray(large, dtype=float) - np.asarray(blown_up, dtype=float)).mean() > 0.5


def test_the_lettering_fades_in_a_small_overview_and_stands_out_in_a_crop() -> None:
    full, crop, overview = zip(*(contrasts(drawn(seed)) for seed in range(12)), strict=True)
    assert np.mean(overview) < 0.33 * np.mean(full)
    assert np.mean(crop) > 1.5 * np.mean(overview)


def contrasts(scene: Scene) -> tuple[float, float, float]:
    """Standard deviation of the lettering's brightness at full size, in a 96 x 48 crop and in a 96 px overview."""
    sign, canvas = scene.signs[0], scene.canvas
    left, top, right, bottom = (side * canvas // 1000 for side in window(sign.box, canvas, scene.level))
    cut = scene.image.crop((left, top, right, bottom)).resize((96, 48), Image.Resampling.BOX)
    x1, y1, x2, y2 = sign.text_box
    small = 96 / (right - left)
    in_crop = tuple(round(v * small) for v in (x1 - left, y1 - top, x2 - left, y2 - top))
    in_overview = tuple(round(v * 96 / canvas) for v in sign.text_box)
    overview = scene.image.resize((96, 96), Image.Resampling.BOX)
    views = ((scene.image, sign.text_box), (cut, in_crop), (overview, in_overview))
    full, crop, far = (float(np.asarray(image.convert("L").crop(box)).std()) for image, box in views)
    return full, crop, far


@pytest.mark.parametrize("level", LEVELS)
def test_the_window_of_a_sign_holds_all_of_it(level: int) -> None:
    for seed in range(20):
        scene = drawn(seed, level)
        for sign in scene.signs:
            left, top, right, bottom = (side * 640 / 1000 for side in window(sign.box, 640, level))
            assert 0 <= left <= sign.box[0]
            assert sign.box[2] <= right <= 640
            assert 0 <= top <= sign.box[1]
            assert sign.box[3] <= bottom <= 640


@pytest.mark.parametrize(("level", "canvas"), [(1, 640), (2, 640), (3, 640), (3, 1920)])
def test_a_sign_is_read_from_the_pixels_of_its_crop_and_from_no_other(level: int, canvas: int) -> None:
    for seed in range(4):
        scene = drawn(seed, level, canvas)
        sign = scene.signs[0]
        x1, y1, x2, y2 = (round(side * canvas / 1000) for side in window(sign.box, canvas, level))
        names = [*BRANDS, *(other.name for other in scene.signs)]
        look, off = (sign.colour, sign.letter_size), round(0.02 * canvas)

        def read(image: Image.Image) -> str | None:
            return read_sign(image, (x1, y1, x2, y2), sign.box, canvas, look, names)  # noqa: B023

        assert read(scene.image.crop((x1, y1, x2, y2))) == sign.name
        assert read(scene.image.crop((x1 + off, y1 + off, x2 + off, y2 + off))) != sign.name
        assert read(Image.new("RGB", (x2 - x1, y2 - y1), (128, 128, 128))) is None


def test_a_sign_that_the_crop_cuts_off_is_not_read() -> None:
    sign = drawn(0).signs[0]
    beside = (sign.box[0] + 20, sign.box[1] - 20, sign.box[2] + 60, sign.box[3] + 20)
    crop = drawn(0).image.crop(beside)
    assert read_sign(crop, beside, sign.box, 640, (sign.colour, sign.letter_size), BRANDS) is None


def test_the_cast_decides_who_appears() -> None:
    cast = Cast(OPEN_BRANDS, OPEN_BRANDS[3], ("Belmont Tower",))
    scene = drawn(1, cast=cast)
    assert scene.signs[0].name == OPEN_BRANDS[3]
    assert {sign.name for sign in scene.signs} <= set(OPEN_BRANDS)
    assert scene.place == "Belmont Tower"


def test_level_three_spells_names_of_random_letters() -> None:
    names = [sign.name for seed in range(5) for sign in drawn(seed, 3).signs]
    assert len(set(names)) == len(names)
    assert all(set(name) <= set(LETTERS) and len(name) == 6 for name in names)
    assert not set(names) & set(BRANDS)


def test_every_place_has_a_building_of_its_own_and_the_seed_rebuilds_the_town() -> None:
    def corners(place: str, seed: int) -> bytes:
        return b"".join(shape.points.tobytes() for shape in landmark(place, seed))

    assert corners("Belmont Tower", 0) == corners("Belmont Tower", 0)
    assert len({corners("Belmont Tower", 0), corners("Belmont Tower Hotel", 0), corners("Belmont Tower", 1)}) == 3


def test_no_name_is_in_two_lists_and_no_place_in_two_splits() -> None:
    names = [*BRANDS, *OPEN_BRANDS, *PASSAGE_BRANDS, *SPARE_BRANDS]
    assert len(set(names)) == len(names) == 256
    places = [place for split in SPLITS for place in places_of(split, 3)]
    assert len(set(places)) == len(places) == sum(PLACES_PER_SPLIT.values())
    assert not set(places) & set(places_of("", 3))
    assert places_of("test", 3) != places_of("test", 4)


def test_signs_are_more_vivid_than_anything_else_but_black() -> None:
    scene = drawn(3)
    hsv = np.asarray(scene.image.convert("HSV"), dtype=float)[..., 1]
    mask = np.zeros(hsv.shape, dtype=bool)
    for sign in scene.signs:
        mask[sign.box[1] : sign.box[3], sign.box[0] : sign.box[2]] = True
    assert np.quantile(hsv[~mask], 0.98) < min(
        saturation(colour) for name, colour in COLOURS.items() if name != "black"
    )


def saturation(colour: tuple[int, int, int]) -> float:
    return 255 * (max(colour) - min(colour)) / max(colour)
