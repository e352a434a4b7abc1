import asyncio
import json
from pathlib import Path

import pytest
from PIL import Image

from tests.search.files import photo
from vlagent import images
from vlagent.cli.main import main
from vlagent.data.image_cache import CacheOptions, estimate_image_cache, make_image_cache
from vlagent.data.manifest import load_samples
from vlagent.errors import QuotaError, TransientError
from vlagent.search.base import ImageQuery
from vlagent.search.cached import CachedImages
from vlagent.search.picture_build import index_images
from vlagent.types import Hit, Source


class Counting:
    """An image search that remembers what it was asked and fails where it is told to."""

    def __init__(self, failing: set[str] = frozenset(), error: type[Exception] = TransientError) -> None:  # type: ignore[assignment]
        self.asked: list[str] = []
        self._failing, self._error = failing, error

    async def search(self, query: ImageQuery) -> list[Hit]:
        name = Path(query.image.path).stem
        self.asked.append(name)
        if name in self._failing:
            raise self._error("fake", "no answer")
        hit = Hit(source=Source(title=f"About {name}"), text="a tower", thumbnail=query.image)
        return [hit, Hit(source=Source(title="No picture"))][: query.top_k]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Two data sets; three different pictures, one of them under two names."""
    root = tmp_path / "root"
    root.mkdir()
    for i in range(3):
        photo(i).save(root / f"p{i}.png")
    photo(0).save(root / "copy.png")

    def row(picture: str | None, number: int) -> dict[str, object]:
        content = "<image>\nWhat?" if picture else "What?"
        shown = {"image": picture} if picture else {}
        truth = {"reward_model": {"ground_truth": "x"}, "mean8_llm_score": 0.5}
        return {"id": f"q{number}", "prompt": [{"role": "user", "content": content}], **shown, **truth}

    first = [row("p0.png", 0), row("p1.png", 1), row("copy.png", 2), row(None, 3)]
    (tmp_path / "first.jsonl").write_text("\n".join(map(json.dumps, first)))
    hr = {"sample_id": "h1", "query": "Which?", "query_image": "p2.png", "ground_truth": "y", "category": "Games"}
    (tmp_path / "hr.jsonl").write_text(json.dumps(hr))
    entry = {"root": "root", "repeat_time": 1, "reward_fn": ["llm_score"]}
    manifest = {
        "first": {**entry, "annotation": "first.jsonl", "length": 4, "comment": "kept"},
        "hr": {**entry, "annotation": "hr.jsonl"},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def cache(world: Path, search: Counting, **options: object) -> object:
    spec = str(world / "manifest.json")
    return asyncio.run(make_image_cache(spec, search, world / "out", CacheOptions(**options)))  # type: ignore[arg-type]


def test_the_written_manifest_gives_every_sample_its_search(world: Path) -> None:
    search = Counting()
    cache(world, search)
    assert sorted(search.asked) == ["p0", "p1", "p2"]
    samples = {sample.id: sample for sample in load_samples(world / "out" / "manifest.json")}
    found = {name: sample.image_search for name, sample in samples.items() if sample.image_search}
    assert {name: one.titles for name, one in found.items()} == {
        "q0": ("About p0", "No picture"),
        "q1": ("About p1", "No picture"),
        "q2": ("About p0", "No picture"),
        "h1": ("About p2", "No picture"),
    }
    assert samples["q0"].extra["mean8_llm_score"] == 0.5
    assert samples["q0"].answers == ("x",)
    thumbnail, none = found["q1"].thumbnails
    assert none is None
    assert thumbnail is not None
    assert Image.open(thumbnail).size == (400, 300)
    assert found["q0"].summary == "About p0: a tower"
    side = json.loads((world / "out" / "image_search.jsonl").read_text())
    assert (side["sample_id"], side["image_search_title_list"]) == ("h1", ["About p2", "No picture"])
    assert json.loads((world / "out" / "manifest.json").read_text())["first"]["comment"] == "kept"


def test_the_agent_reads_the_cache_without_any_search(world: Path) -> None:
    cache(world, Counting())
    sample = load_samples(world / "out" / "manifest.json:first")[1]
    query = ImageQuery(image=sample.images[0], cached=sample.image_search)
    hits = asyncio.run(CachedImages().search(query))
    assert [hit.source.title for hit in hits] == ["About p1", "No picture"]
    assert hits[0].thumbnail is not None


def test_a_second_run_asks_only_for_what_failed_or_is_new(world: Path) -> None:
    first = cache(world, Counting({"p1"}))
    assert [Path(path).stem for path, _ in first.failed] == ["p1"]  # type: ignore[attr-defined]
    before = {s.id: s.image_search for s in load_samples(world / "out" / "manifest.json")}
    assert before["q1"] is None
    assert before["q0"] is not None
    again = Counting()
    cache(world, again)
    assert again.asked == ["p1"]
    assert load_samples(world / "out" / "manifest.json")[1].image_search is not None


def test_a_used_up_quota_ends_the_run_and_keeps_what_was_answered(world: Path) -> None:
    with pytest.raises(QuotaError):
        cache(world, Counting({"p1"}, QuotaError), concurrency=1)
    rest = Counting()
    cache(world, rest)
    assert sorted(rest.asked) == ["p1", "p2"]


def test_options_change_what_is_asked_and_kept(world: Path) -> None:
    spec = str(world / "manifest.json")
    whole = estimate_image_cache(spec, world / "out", CacheOptions(usd_per_1000=2.0, call_s=4.0, concurrency=2))
    assert (whole.rows, whole.without_picture, whole.pictures, whole.calls) == (5, 1, 3, 3)
    assert (whole.seconds, whole.usd) == (6.0, pytest.approx(0.006))
    search = Counting()
    cache(world, search, limit=1, top_k=1)
    assert sorted(search.asked) == ["p0", "p2"]
    assert [s.image_search.titles for s in load_samples(world / "out" / "manifest.json") if s.image_search] == [
        ("About p0",),
        ("About p2",),
    ]
    after = estimate_image_cache(spec, world / "out")
    assert (after.answered, after.calls) == (2, 1)


def test_the_verb_estimates_then_caches_by_a_local_index(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "album").mkdir()
    for i in range(3):
        photo(i).resize((300, 225)).save(world / "album" / f"tower {i}.png")
    index_images([world / "album"], world / "s")
    words = ["data", "image-cache", f"{world / 'manifest.json'}:first", str(world / "out")]
    assert main([*words, "--dry-run", "--usd-per-1000", "500"]) == 0
    assert "2 searches, about 0.0 minutes, 1.00 USD" in capsys.readouterr().out
    assert not (world / "out").exists()
    assert main([*words, "--search", str(world / "s")]) == 0
    assert "4 rows, 2 asked (0 without a hit), 0 known before, 0 failed" in capsys.readouterr().out
    samples = load_samples(world / "out" / "manifest.json")
    assert [s.image_search.titles for s in samples if s.image_search] == [("tower 0",), ("tower 1",), ("tower 0",)]
    assert images.probe(samples[0].images[0].path).path == str(world / "root" / "p0.png")


@pytest.mark.parametrize(
    ("more", "message"),
    [([], "which search"), (["--search", "nowhere"], "no such folder"), (["--limit", "0"], "--limit 0")],
)
def test_a_users_mistake_is_one_line(
    world: Path, capsys: pytest.CaptureFixture[str], more: list[str], message: str
) -> None:
    assert main(["data", "image-cache", str(world / "manifest.json"), str(world / "out"), *more]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1
