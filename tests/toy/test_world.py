from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.toy.parts import World
from vlagent.cli.main import main
from vlagent.cli.toy import counts
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json, sha256_of
from vlagent.search.base import ImageQuery, TextQuery
from vlagent.toy.facts import search_words
from vlagent.toy.lexicon import BRANDS, KINDS, OPEN_BRANDS
from vlagent.toy.splits import make_split, slots
from vlagent.toy.world import SYSTEM_PROMPT, Card, WorldConfig, make_world
from vlagent.types import ImageRef


def made(folder: Path, seed: int = 3, **changes: object) -> Card:
    values = {"seed": seed, "per_kind": {"val": 1}, "canvas": 320} | changes
    return make_world(folder, WorldConfig.model_validate(values), index=False)


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_two_runs_write_the_same_bytes_and_another_seed_does_not(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made(tmp_path / name)
    made(tmp_path / "c", seed=4)
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")
    assert hashes(tmp_path / "a").keys() & {"val/rows.jsonl", "val/corpus.jsonl", "manifest.json", "card.json"}
    same = [path for path, value in hashes(tmp_path / "c").items() if hashes(tmp_path / "a").get(path) == value]
    assert same == []


def test_a_stopped_run_goes_on_to_the_same_bytes_and_redraws_nothing(tmp_path: Path) -> None:
    made(tmp_path)
    whole = hashes(tmp_path)
    kept = tmp_path / "val" / "scenes" / "read-0000.png"
    before = kept.stat().st_mtime_ns
    for lost in ("val/rows.jsonl", "val/scenes/both-0000.png", "val/corpus.jsonl", "card.json"):
        (tmp_path / lost).unlink()
    made(tmp_path)
    assert hashes(tmp_path) == whole
    assert kept.stat().st_mtime_ns == before


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    made(tmp_path / "w")
    with pytest.raises(UserError, match="other settings"):
        made(tmp_path / "w", seed=4)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    with pytest.raises(UserError, match="not empty"):
        made(tmp_path / "mine")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"level": 4}, "level 4"),
        ({"canvas": 10}, "canvas 10"),
        ({"per_kind": {"tests": 1}}, "'tests'"),
        ({"per_kind": {"test": 0}}, "at least one"),
    ],
)
def test_a_setting_that_cannot_be_is_named(tmp_path: Path, changes: dict[str, object], named: str) -> None:
    with pytest.raises(UserError, match=named):
        made(tmp_path / "w", **changes)
    assert not (tmp_path / "w").exists()


def test_rows_are_read_as_published_data_is(world: World) -> None:
    assert len(world.samples) == 4 * len(KINDS)
    by_kind = {kind: [s for s in world.samples if s.extra["kind"] == kind] for kind in KINDS}
    assert {kind: len(samples) for kind, samples in by_kind.items()} == dict.fromkeys(KINDS, 4)
    assert {kind: samples[0].extra["min_calls"] for kind, samples in by_kind.items()} == {
        "read": 1,
        "fact": 1,
        "place": 2,
        "brand": 2,
        "both": 4,
    }
    assert {s.extra["difficulty"] for s in [*by_kind["read"], *by_kind["fact"]]} == {"easy"}
    assert {s.extra["difficulty"] for s in [*by_kind["place"], *by_kind["brand"], *by_kind["both"]]} == {"hard"}
    assert all(bool(s.extra["gold_boxes"]) == (s.extra["kind"] in ("read", "brand", "both")) for s in world.samples)
    assert all(s.images[0].width == 640 and "<image>" not in s.question for s in world.samples)


def test_scenes_are_in_one_split_only_and_open_brands_only_in_test_open(tmp_path: Path) -> None:
    made(tmp_path, per_kind={"train": 1, "val": 1, "test": 1, "test_open": 1})
    rows = {name: list(iter_jsonl(tmp_path / name / "rows.jsonl")) for name in ("train", "val", "test", "test_open")}
    scenes = [row["scene_hash"] for each in rows.values() for row in each]
    assert len(set(scenes)) == len(scenes) == 20
    for name, each in rows.items():
        brands = {row["gold"]["brand"] for row in each} - {None}
        assert brands <= set(OPEN_BRANDS if name == "test_open" else BRANDS)


def test_the_system_prompt_is_an_option(tmp_path: Path) -> None:
    made(tmp_path / "plain")
    made(tmp_path / "tiny", system_prompt=SYSTEM_PROMPT)
    assert {s.system_prompt for s in load_samples(tmp_path / "plain" / "manifest.json")} == {None}
    assert {s.system_prompt for s in load_samples(tmp_path / "tiny" / "manifest.json")} == {SYSTEM_PROMPT}


async def test_the_text_index_answers_every_fact_first(world: World) -> None:
    split = make_split("test", 11, 2, 640)
    text = world.setup.search.text
    assert text is not None
    for name in (*BRANDS, *split.places):
        hits = await text.search(TextQuery(text=search_words(name, "year")))
        assert split.facts.sentence(name, "year") in hits[0].text


async def test_the_picture_index_finds_the_place_of_every_scene_and_nothing_for_grey(
    world: World, tmp_path: Path
) -> None:
    images = world.setup.search.images
    assert images is not None
    split = make_split("test", 11, 2, 640)
    for sample, slot in zip(world.samples, slots(split, 4), strict=True):
        hits = await images.search(ImageQuery(image=sample.images[0]))
        assert hits[0].source.title == slot.place
    Image.new("RGB", (640, 640), (128, 128, 128)).save(tmp_path / "grey.png")
    grey = ImageRef(path=str(tmp_path / "grey.png"), width=640, height=640)
    assert await images.search(ImageQuery(image=grey)) == []


def test_the_command_prints_the_guess_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["toy", "make", str(tmp_path / "w"), "--seed", "2", "--per-kind", "1", "--splits", "val", "--canvas", "320"]
    assert main(words) == 0
    assert "val: 5 questions" in capsys.readouterr().out
    assert read_json(tmp_path / "w" / "card.json")["splits"]["val"]["guess_levels"]["read"] == 1.0
    assert (tmp_path / "w" / "val" / "search" / "text").is_dir()
    assert json.loads((tmp_path / "w" / "manifest.json").read_text())["toy_val"]["length"] == 5
    assert main([*words[:4], "5", *words[5:]]) == 2
    assert "other settings" in capsys.readouterr().err


def test_per_kind_counts_are_for_every_split_or_for_one() -> None:
    assert counts([], "val,test") == {"val": 100, "test": 100}
    assert counts(["7", "val=9"], "val,test") == {"val": 9, "test": 7}
    for wrong in (["x"], ["val="], ["-3"], ["train=5"]):
        with pytest.raises(UserError):
            counts(wrong, "val,test")
