"""What cannot be used as a picture is refused with one line, at the start as the user's error."""

from __future__ import annotations

import os
import random
import struct
import zlib
from pathlib import Path

import pytest
import tifffile
from PIL import Image

from tests.images.drawing import far, grain, quarters
from vlagent import images
from vlagent.errors import ServiceError, UserError


def refusal(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        images.probe(path)
    line = str(caught.value)
    assert "\n" not in line
    assert path.name in line
    return line


def test_a_missing_file(tmp_path: Path) -> None:
    assert "no such picture" in refusal(tmp_path / "gone.jpg")


def test_a_folder(tmp_path: Path) -> None:
    assert "it is a folder" in refusal(tmp_path)


def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert "not a regular file" in refusal(tmp_path / "pipe.jpg")


def test_a_device() -> None:
    assert "not a regular file" in refusal(Path("/dev/zero"))


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    assert "the file is empty" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize(
    "content", [b"hello, I am a letter", b"\xff\xd8\xff", b"II*\0", b"\x89PNG\r\n\x1a\n", b"\0" * 99]
)
def test_a_file_that_is_no_picture(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    assert "not a picture that can be read" in refusal(tmp_path / "a.jpg")


def test_a_picture_format_that_runs_programs(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.eps")
    assert "no known picture format" in refusal(tmp_path / "a.eps")


@pytest.mark.parametrize("name", ["a\0b.jpg", "x" * 300 + ".jpg"])
def test_a_name_that_no_file_can_have(name: str) -> None:
    with pytest.raises(UserError):
        images.probe(name)


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.png")
    (tmp_path / "a.png").chmod(0)
    if os.access(tmp_path / "a.png", os.R_OK):
        pytest.skip("this user may read everything")
    assert "permission denied" in refusal(tmp_path / "a.png")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF", "BMP", "GIF", "AVIF"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_truncated_file(kind: str, part: float, tmp_path: Path) -> None:
    Image.fromarray(grain()).save(tmp_path / "whole", kind)
    data = (tmp_path / "whole").read_bytes()
    (tmp_path / "part").write_bytes(data[: int(len(data) * part)])
    assert "not a picture that can be read" in refusal(tmp_path / "part")


@pytest.mark.parametrize("layout", [{"tile": (64, 64)}, {"rowsperstrip": 10}])
def test_a_truncated_tiled_tiff(layout: dict[str, object], tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "whole.tif", grain(), photometric="rgb", compression="adobe_deflate", **layout)
    data = (tmp_path / "whole.tif").read_bytes()
    for part in (0.2, 0.5, 0.99):
        (tmp_path / "part.tif").write_bytes(data[: int(len(data) * part)])
        assert "not a picture that can be read" in refusal(tmp_path / "part.tif")


def test_a_truncated_heic(tmp_path: Path) -> None:
    data = (Path(__file__).parent / "data" / "quadrants.heic").read_bytes()
    (tmp_path / "part.heic").write_bytes(data[:-60])
    assert "not a picture that can be read" in refusal(tmp_path / "part.heic")


def bomb(width: int, height: int) -> bytes:
    """A PNG that says to be huge."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(b"\0" * 99)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


@pytest.mark.parametrize("size", [(17_000, 17_000), (60_000, 60_000), (2**31 - 1, 2**31 - 1)])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(size: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "bomb.png").write_bytes(bomb(*size))
    assert "the limit" in refusal(tmp_path / "bomb.png")


def test_the_limit_can_be_set(tmp_path: Path) -> None:
    quarters().save(tmp_path / "a.png")
    limit = images.max_pixels()
    try:
        images.set_max_pixels(96 * 64 - 1)
        assert "96 x 64 pixels are over the limit of 6,143" in refusal(tmp_path / "a.png")
        images.set_max_pixels(96 * 64)
        assert images.probe(tmp_path / "a.png").width == 96
    finally:
        images.set_max_pixels(limit)


def test_the_header_alone_suffices_where_the_caller_says_so(tmp_path: Path) -> None:
    Image.fromarray(grain()).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(data[: len(data) // 2])
    assert images.probe(tmp_path / "a.jpg", decode=False).width == 300


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_picture_that_breaks_in_mid_run_is_the_worlds_fault(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    Image.fromarray(grain()).save(path, kind)
    ref = images.probe(path)
    part = images.crop(ref, (100, 100, 290, 190))
    data = path.read_bytes()
    for broken in (data[: len(data) // 2], b"", b"now a letter"):
        path.write_bytes(broken)
        with pytest.raises(ServiceError, match="cannot be read"):
            images.load(part)
    path.unlink()
    with pytest.raises(ServiceError, match="no such file"):
        images.load(ref)


def test_a_picture_that_changed_its_size_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    Image.fromarray(grain()).save(tmp_path / "a.png")
    ref = images.probe(tmp_path / "a.png")
    part = images.crop(ref, (200, 100, 300, 200))
    quarters().save(tmp_path / "a.png")
    for old in (ref, part):
        with pytest.raises(ServiceError, match="it has changed"):
            images.load(old)


def test_a_relative_path_stays_good_when_the_folder_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.fromarray(grain()).save(tmp_path / "a.png")
    monkeypatch.chdir(tmp_path)
    ref = images.probe("a.png")
    monkeypatch.chdir("/")
    assert far(images.load(ref), grain()) == 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("suffix", ["tif", "png", "jpg", "webp", "gif", "bmp", "avif", "ico", "jp2", "ppm"])
def test_damaged_bytes_are_the_users_or_the_files_fault_and_never_a_crash(suffix: str, tmp_path: Path) -> None:
    whole, rng = tmp_path / f"whole.{suffix}", random.Random(suffix)
    if suffix == "tif":
        tifffile.imwrite(whole, grain(64, 64), tile=(32, 32))
    else:
        Image.fromarray(grain(64, 64)).save(whole)
    damaged = tmp_path / f"damaged.{suffix}"
    refused = 0
    for _ in range(150):
        damaged.write_bytes(_damage(whole.read_bytes(), rng))
        try:
            images.load(images.probe(damaged), (16, 16))
        except (UserError, ServiceError):
            refused += 1
    assert refused > 0


def test_a_tiff_whose_strips_hold_no_row(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "a.tif", grain(64, 64), rowsperstrip=16)
    with tifffile.TiffFile(tmp_path / "a.tif", mode="r+b") as file:
        file.pages[0].tags["RowsPerStrip"].overwrite(0)  # type: ignore[union-attr]
    assert "not a picture that can be read" in refusal(tmp_path / "a.tif")


def _damage(raw: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(raw[: rng.randrange(1, len(raw))] if rng.random() < 0.2 else raw)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(min(len(damaged), 400) if rng.random() < 0.6 else len(damaged))
        damaged[at] = rng.choice((0, rng.randrange(256)))
    return bytes(damaged)
