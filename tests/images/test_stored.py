import base64
import io

import numpy as np
import pytest
from PIL import Image

from vlagent import images
from vlagent.errors import ServiceError
from vlagent.images.stored import without_metadata


def noise(width=96, height=64):
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8))


def sent(ref, size=None):
    kind, _, code = images.data_url(ref, size).partition(",")
    return kind.removeprefix("data:image/").removesuffix(";base64"), base64.b64decode(code)


def saved(path, image=None, **options):
    (image or noise()).save(path, **options)
    return images.probe(path)


def test_a_jpeg_of_the_right_size_travels_as_it_is_to_the_pixel(tmp_path):
    ref = saved(tmp_path / "a.jpg", quality=70)
    kind, raw = sent(ref)
    assert kind == "jpeg"
    assert len(raw) == (tmp_path / "a.jpg").stat().st_size
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(raw))), np.asarray(images.load(ref)))


def test_where_and_by_whom_it_was_taken_stays_at_home(tmp_path):
    exif = Image.Exif()
    exif[0x013B] = "a photographer's name"
    ref = saved(tmp_path / "a.jpg", exif=exif, comment=b"a secret comment")
    assert b"photographer" in (tmp_path / "a.jpg").read_bytes()
    _, raw = sent(ref)
    assert b"photographer" not in raw
    assert b"secret" not in raw
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(raw))), np.asarray(images.load(ref)))


@pytest.mark.parametrize("mode", ["turned", "cmyk", "cropped", "scaled", "png", "cut", "progressive grey"])
def test_anything_else_is_decoded_and_encoded_unless_it_is_plain(tmp_path, mode):
    path = tmp_path / "a.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    if mode == "turned":
        ref, size, same = saved(path, exif=exif), None, False
    elif mode == "cmyk":
        ref, size, same = saved(path, noise().convert("CMYK")), None, False
    elif mode == "cropped":
        ref, size, same = images.crop(saved(path), (0, 0, 64, 32)), None, False
    elif mode == "scaled":
        ref, size, same = saved(path), (48, 32), False
    elif mode == "png":
        ref, size, same = saved(tmp_path / "a.png"), None, False
    elif mode == "cut":
        ref, size, same = saved(path), None, False
        path.write_bytes(path.read_bytes() + b"more")
    else:
        ref, size, same = saved(path, noise().convert("L"), progressive=True), None, True
    kind, raw = sent(ref, size)
    assert (kind == "jpeg") is same
    shown = Image.open(io.BytesIO(raw))
    assert shown.size == (size or (ref.width, ref.height))


def test_a_file_that_vanished_or_broke_is_a_service_error_as_before(tmp_path):
    ref = saved(tmp_path / "a.jpg")
    (tmp_path / "a.jpg").unlink()
    with pytest.raises(ServiceError):
        images.data_url(ref)
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8 no picture")
    with pytest.raises(ServiceError):
        images.data_url(ref)


def test_segments_that_make_no_sense_are_not_passed_on():
    assert without_metadata(b"GIF89a") is None
    assert without_metadata(b"\xff\xd8\xff\xe0\x00") is None


@pytest.mark.parametrize(("side", "kind"), [(500, "png"), (600, "jpeg")])
def test_a_jpeg_that_must_be_scaled_travels_without_loss_only_while_it_is_small(tmp_path, side, kind):
    ref = saved(tmp_path / "a.jpg", noise(640, 640))
    assert sent(ref, (side, side))[0] == kind
    same = saved(tmp_path / "a.png", noise(640, 640))
    assert sent(same, (side, side))[0] == "png"
    assert images.data_url(ref, (side, side), lossless=True).startswith("data:image/png")
