import asyncio
import io
import json
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from tests.search.files import photo
from vlagent import images
from vlagent.errors import ServiceError, UserError
from vlagent.search.base import ImageQuery
from vlagent.search.ledger import Marker
from vlagent.search.picture_build import PictureOptions, index_images
from vlagent.search.picture_features import extract
from vlagent.search.picture_index import PictureIndex
from vlagent.search.picture_store import VERSION
from vlagent.search.picture_words import hamming, learn, words_for
from vlagent.types import Hit

COUNT = 16


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """WORLD/pictures p00 ... p15 and WORLD/search."""
    folder = tmp_path_factory.mktemp("world")
    (folder / "pictures").mkdir()
    for i in range(COUNT):
        photo(i).save(folder / "pictures" / f"p{i:02}.png")
    index_images([folder / "pictures"], folder / "search")
    return folder


@pytest.fixture(scope="module")
def index(world: Path) -> PictureIndex:
    return PictureIndex(world / "search" / "images")


def look_up(index: PictureIndex, picture: Image.Image, path: Path) -> list[Hit]:
    picture.save(path)
    return index.find(ImageQuery(image=images.probe(path)))


def _jpeg(picture: Image.Image) -> Image.Image:
    buffer = io.BytesIO()
    picture.resize((260, 195)).save(buffer, "JPEG", quality=30)
    return Image.open(buffer).convert("RGB")


def _pasted(picture: Image.Image) -> Image.Image:
    page = Image.new("RGB", (900, 1100), "white")
    draw = ImageDraw.Draw(page)
    for y in range(20, 1080, 24):
        draw.text((20, y), f"line {y} of a page full of words " * 3, fill="black", font_size=15)
    page.paste(picture, (300, 420))
    return page


CHANGES = {
    "copied": lambda p: p,
    "compressed and resized": _jpeg,
    "turned by 10 degrees": lambda p: p.rotate(10, resample=Image.Resampling.BICUBIC),
    "cropped to 70 %": lambda p: p.crop((60, 40, 340, 250)),
    "cropped to 40 %": lambda p: p.crop((120, 90, 280, 210)),
    "pasted into a page": _pasted,
    "darkened": lambda p: p.point(lambda v: int(v * 0.6)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_picture_is_found(index: PictureIndex, tmp_path: Path, change: str) -> None:
    found = [look_up(index, CHANGES[change](photo(i)), tmp_path / f"q{i}.png") for i in range(3)]
    assert [hits[0].source.title if hits else None for hits in found] == [f"p{i:02}" for i in range(3)]


def test_a_picture_that_is_not_there_gives_no_hit(index: PictureIndex, tmp_path: Path) -> None:
    for seed in range(100, 103):
        assert look_up(index, photo(seed), tmp_path / f"q{seed}.png") == []
    for colour in ("white", "grey"):
        assert look_up(index, Image.new("RGB", (400, 300), colour), tmp_path / f"{colour}.png") == []


def test_a_region_is_searched_by_its_box(index: PictureIndex, world: Path) -> None:
    whole = images.probe(world / "pictures" / "p03.png")
    (hit,) = index.find(ImageQuery(image=images.crop(whole, (50, 40, 330, 260))))
    assert hit.source.file == whole.path


def test_a_hit_carries_title_file_score_and_the_picture_as_thumbnail(index: PictureIndex, world: Path) -> None:
    query = images.probe(world / "pictures" / "p05.png")
    (hit,) = index.find(ImageQuery(image=query))
    assert (hit.source.title, hit.source.file) == ("p05", query.path)
    assert hit.thumbnail == query
    assert 0.9 < hit.score <= 1.0


def test_a_tiny_and_a_long_picture_are_no_error(index: PictureIndex, tmp_path: Path) -> None:
    for size in ((1, 1), (3, 500), (2000, 4)):
        assert look_up(index, photo(200).resize(size), tmp_path / f"{size[0]}.png") == []


def test_searches_at_once_give_what_one_gives(index: PictureIndex, world: Path) -> None:
    queries = [ImageQuery(image=images.probe(world / "pictures" / f"p{i % 4:02}.png")) for i in range(12)]

    async def together() -> list[list[Hit]]:
        return await asyncio.gather(*map(index.search, queries))

    fresh = PictureIndex(world / "search" / "images")
    assert asyncio.run(together()) == [fresh.find(query) for query in queries]


def test_top_k_limits_the_hits_of_a_picture_that_is_there_twice(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        photo(1).save(tmp_path / f"{name}.png")
    index_images([tmp_path], tmp_path / "s")
    index = PictureIndex(tmp_path / "s" / "images")
    query = images.probe(tmp_path / "a.png")
    assert [h.source.title for h in index.find(ImageQuery(image=query))] == ["a", "b", "c"]
    assert [h.source.title for h in index.find(ImageQuery(image=query, top_k=2))] == ["a", "b"]


def test_a_picture_without_corners_is_found_by_its_looks(tmp_path: Path) -> None:
    ramp = np.linspace(0, 255, 300, dtype=np.uint8)
    Image.fromarray(np.tile(ramp, (200, 1))).save(tmp_path / "right.png")
    Image.fromarray(np.tile(ramp[::-1], (200, 1))).save(tmp_path / "left.png")
    index_images([tmp_path], tmp_path / "s")
    index = PictureIndex(tmp_path / "s" / "images")
    query = Image.open(tmp_path / "left.png").resize((240, 160))
    assert [hit.source.title for hit in look_up(index, query, tmp_path / "q.png")] == ["left"]


def test_a_query_whose_file_is_gone_is_a_service_error(index: PictureIndex, tmp_path: Path) -> None:
    photo(0).save(tmp_path / "q.png")
    query = images.probe(tmp_path / "q.png")
    (tmp_path / "q.png").unlink()
    with pytest.raises(ServiceError):
        index.find(ImageQuery(image=query))


def test_titles_come_from_the_side_file_then_the_picture_then_its_name(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "The harbour of Oslo at dawn"
    photo(1).save(tmp_path / "a.jpg", exif=exif)
    exif[0x010E] = "OLYMPUS DIGITAL CAMERA"
    photo(2).save(tmp_path / "my_b.jpg", exif=exif)
    photo(3).save(tmp_path / "c.jpg", exif=exif)
    row = {"file": "c.jpg", "title": "Belmont Tower", "url": "https://x.y/c"}
    (tmp_path / "titles.jsonl").write_text(json.dumps(row))
    index_images([tmp_path], tmp_path / "s")

    def source(name: str) -> tuple[str, str | None]:
        (hit,) = PictureIndex(tmp_path / "s" / "images").find(ImageQuery(image=images.probe(tmp_path / name)))
        return hit.source.title, hit.source.url

    assert source("a.jpg") == ("The harbour of Oslo at dawn", None)
    assert source("my_b.jpg") == ("my b", None)
    assert source("c.jpg") == ("Belmont Tower", "https://x.y/c")
    (tmp_path / "titles.jsonl").write_text(json.dumps({"file": "c.jpg", "title": "Renamed"}))
    assert index_images([tmp_path], tmp_path / "s").unchanged == 3
    assert source("c.jpg") == ("Renamed", None)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"file": "a.jpg", "title": "By option"}))
    index_images([tmp_path], tmp_path / "s", PictureOptions(titles=other))
    assert source("a.jpg") == ("By option", None)


def test_a_broken_side_file_is_one_line(tmp_path: Path) -> None:
    photo(1).save(tmp_path / "a.png")
    (tmp_path / "titles.jsonl").write_text('{"file": "a.png"}')
    with pytest.raises(UserError, match=r"titles.jsonl:1: .*title"):
        index_images([tmp_path], tmp_path / "s")


def test_a_second_run_does_only_what_is_new_changed_or_gone(tmp_path: Path) -> None:
    for i in range(4):
        photo(i).save(tmp_path / f"p{i}.png")
    index_images([tmp_path], tmp_path / "s")
    photo(50).save(tmp_path / "p0.png")
    (tmp_path / "p1.png").unlink()
    photo(51).save(tmp_path / "p4.png")
    os.utime(tmp_path / "p2.png", (1, 1))
    report = index_images([tmp_path], tmp_path / "s")
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 2)
    index = PictureIndex(tmp_path / "s" / "images")
    found = {seed: look_up(index, photo(seed), tmp_path / "q.png") for seed in (50, 51, 2, 0, 1)}
    assert [found[seed][0].source.title for seed in (50, 51, 2)] == ["p0", "p4", "p2"]
    assert (found[0], found[1]) == ([], [])


def test_a_collection_that_has_outgrown_its_vocabulary_gets_a_new_one(tmp_path: Path) -> None:
    photo(0).save(tmp_path / "p00.png")
    index_images([tmp_path], tmp_path / "s")
    before = PictureIndex(tmp_path / "s" / "images")._words
    for i in range(1, 9):
        photo(i).save(tmp_path / f"p{i:02}.png")
    index_images([tmp_path], tmp_path / "s")
    index = PictureIndex(tmp_path / "s" / "images")
    assert index._words is not None
    assert before is not None
    assert len(index._words.centres) > 2 * len(before.centres)
    assert look_up(index, photo(0).crop((60, 40, 340, 250)), tmp_path / "q.png")[0].source.title == "p00"


def test_unreadable_pictures_are_listed_with_the_reason(tmp_path: Path) -> None:
    photo(0).save(tmp_path / "good.png")
    (tmp_path / "torn.png").write_bytes((tmp_path / "good.png").read_bytes()[:3000])
    (tmp_path / "no.jpg").write_text("not a picture")
    photo(1).save(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.png")))
    report = index_images([tmp_path], tmp_path / "s")
    reasons = {Path(file).name: reason for file, reason in report.unreadable}
    assert set(reasons) == {"torn.png", "no.jpg", "caf�.png"}
    assert "UTF-8" in reasons["caf�.png"]
    assert str(tmp_path) not in "".join(reasons.values())
    assert (report.files, report.added) == (1, 1)


def test_nothing_to_index_and_another_version_are_one_line_each(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(UserError, match="no picture to index"):
        index_images([tmp_path], tmp_path / "s")
    photo(0).save(tmp_path / "p.png")
    index_images([tmp_path], tmp_path / "s")
    marker = Marker(kind="images", version=VERSION + 1)
    (tmp_path / "s" / "images" / "vlagent-index.json").write_text(marker.model_dump_json())
    with pytest.raises(UserError, match="--rebuild"):
        PictureIndex(tmp_path / "s" / "images")


def test_an_index_of_unreadable_pictures_only_is_empty_and_can_be_searched(tmp_path: Path) -> None:
    (tmp_path / "no.jpg").write_text("not a picture")
    index_images([tmp_path], tmp_path / "s")
    index = PictureIndex(tmp_path / "s" / "images")
    assert len(index) == 0
    assert look_up(index, photo(0), tmp_path / "q.png") == []


def test_the_same_descriptors_give_the_same_words_and_every_word_lies_in_its_branch() -> None:
    descriptors = np.random.default_rng(0).integers(0, 90, (3000, 128)).astype(np.uint8)
    one, two = learn(descriptors, 5), learn(descriptors, 5)
    assert np.array_equal(one.centres, two.centres)
    nearest = one.nearest(descriptors[:50], 3)
    far = ((descriptors[:50, None].astype(float) - one.centres[None]) ** 2).sum(-1)
    assert (nearest[:, 0] == far.argmin(1)).mean() > 0.5
    chosen = np.take_along_axis(far, nearest, axis=1)
    assert (np.diff(chosen, axis=1) >= -1).all()


def test_hamming_counts_the_bits_that_differ() -> None:
    a, b = np.array([0, 0b1011, 2**64 - 1], np.uint64), np.array([0, 0b0001, 0], np.uint64)
    assert hamming(a, b).tolist() == [0, 2, 64]


def test_keypoints_are_spread_over_the_picture(tmp_path: Path) -> None:
    busy = Image.new("RGB", (400, 400), "white")
    busy.paste(photo(1, (400, 300)), (0, 0))
    draw = ImageDraw.Draw(busy)
    draw.text((250, 340), "small print", fill="black", font_size=20)
    busy.save(tmp_path / "q.png")
    points = extract(images.probe(tmp_path / "q.png"), kept=60).points
    assert len(points) == 60
    assert (points[:, 1] > 335).sum() >= 3


class Counting(ThreadPoolExecutor):
    """Counts what is handed to threads."""

    count = 0

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        self.count += 1
        return super().submit(*args, **kwargs)


def test_the_same_picture_looked_up_by_many_at_once_is_looked_up_once(index: PictureIndex, tmp_path: Path) -> None:
    photo(3).save(tmp_path / "query.png")
    query = ImageQuery(image=images.probe(tmp_path / "query.png"))
    threads = Counting(4)

    async def at_once() -> list[list[Hit]]:
        asyncio.get_running_loop().set_default_executor(threads)
        return await asyncio.gather(*(index.search(query) for _ in range(8)))

    found = asyncio.run(at_once())
    assert threads.count == 1
    assert all(hits == found[0] for hits in found)
    assert found[0][0].source.file.endswith("p03.png")


async def test_one_who_gives_up_waiting_takes_nothing_from_the_others(index: PictureIndex, tmp_path: Path) -> None:
    photo(5).save(tmp_path / "query.png")
    query = ImageQuery(image=images.probe(tmp_path / "query.png"))
    first, second = (asyncio.create_task(index.search(query)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second)[0].source.file.endswith("p05.png")


def segments(folder: Path) -> list[int]:
    """Pictures of each segment on disk."""
    state = json.loads((folder / "postings" / "segments.json").read_text())
    return [len(np.load(folder / "postings" / name / "numbers.npy")) for name in state["segments"]]


def test_a_refresh_adds_a_segment_and_many_small_ones_are_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlagent.search.picture_build.GROWTH", 99)
    for i in range(11):
        photo(i, (200, 150)).save(tmp_path / f"p{i:02}.png")
        index_images([tmp_path], tmp_path / "s")
        if i == 4:
            assert segments(tmp_path / "s" / "images") == [1, 1, 1, 1, 1]
    held = segments(tmp_path / "s" / "images")
    assert (sum(held), len(held) <= 8, max(held) > 1) == (11, True, True)
    index = PictureIndex(tmp_path / "s" / "images")
    for i in (0, 5, 10):
        assert look_up(index, photo(i, (200, 150)), tmp_path / "q.png")[0].source.title == f"p{i:02}"
    for i in range(9):
        (tmp_path / f"p{i:02}.png").unlink()
    (tmp_path / "q.png").unlink()
    index_images([tmp_path], tmp_path / "s")
    assert sum(segments(tmp_path / "s" / "images")) <= 4


def test_an_index_whose_segments_are_missing_or_behind_answers_the_same(world: Path, tmp_path: Path) -> None:
    shutil.copytree(world / "search", tmp_path / "search")
    shutil.copytree(world / "pictures", tmp_path / "pictures")
    folder = tmp_path / "search" / "images"
    queries = [ImageQuery(image=images.probe(tmp_path / "pictures" / f"p{i:02}.png")) for i in range(4)]
    whole = [PictureIndex(folder).find(query) for query in queries]
    shutil.rmtree(folder / "postings")
    assert [PictureIndex(folder).find(query) for query in queries] == whole
    with sqlite3.connect(folder / "ledger.sqlite") as ledger:
        ledger.execute("DROP TABLE slots")
    ledger.close()
    assert [PictureIndex(folder).find(query) for query in queries] == whole
    assert index_images([tmp_path / "pictures"], tmp_path / "search").unchanged == COUNT
    assert segments(folder) == [COUNT]
    assert [PictureIndex(folder).find(query) for query in queries] == whole


def test_a_reader_keeps_what_it_opened_while_a_writer_replaces_it(tmp_path: Path) -> None:
    photo(0).save(tmp_path / "a.png")
    index_images([tmp_path], tmp_path / "s")
    before = PictureIndex(tmp_path / "s" / "images")
    for i in range(1, 6):
        photo(i).save(tmp_path / f"b{i}.png")
    index_images([tmp_path], tmp_path / "s")
    assert look_up(before, photo(0).crop((60, 40, 340, 250)), tmp_path / "q.png")[0].source.title == "a"
    assert len(before) == 1


def test_larger_collections_get_more_words() -> None:
    assert [words_for(count) for count in (1, 500, 2000, 10**6)] == [4096, 4096, 16_000, 65_536]
