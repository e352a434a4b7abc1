import asyncio
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.search.files import photo
from vlagent import images
from vlagent.errors import UserError
from vlagent.search.base import ImageQuery
from vlagent.search.cached import CachedImages
from vlagent.search.dense_embedders import Floats, unit
from vlagent.search.open import open_search
from vlagent.search.picture_build import index_images
from vlagent.search.semantic import ClipEmbedder, InTurn, SemanticIndex, SemanticOptions, index_semantic
from vlagent.types import ImageRef


class Colours:
    """The mean colour of a picture: alike is what has it."""

    dim = 3

    def pictures(self, refs: list[ImageRef]) -> Floats:
        means = [np.asarray(images.load(ref, (8, 8)), np.float32).mean(axis=(0, 1)) + 1 for ref in refs]
        return unit(np.array(means, np.float32))


def paint(path: Path, colour: tuple[int, int, int]) -> Path:
    Image.new("RGB", (64, 48), colour).save(path)
    return path


@pytest.fixture
def world(tmp_path: Path) -> Path:
    (tmp_path / "pictures").mkdir()
    for name, colour in {"red": (200, 10, 10), "green": (10, 200, 10), "blue": (10, 10, 200)}.items():
        paint(tmp_path / "pictures" / f"{name}.png", colour)
    (tmp_path / "pictures" / "torn.png").write_bytes(b"\x89PNG")
    return tmp_path


def titles(world: Path, picture: Path, **options: float) -> list[str]:
    index = SemanticIndex(world / "semantic", Colours(), **options)
    return [hit.source.title for hit in index.find(ImageQuery(image=images.probe(picture), top_k=9))]


def test_the_most_alike_come_first_and_what_is_too_far_is_left_out(world: Path) -> None:
    report = index_semantic([world / "pictures"], world, embedder=Colours())
    assert (report.added, len(report.unreadable)) == (3, 1)
    query = paint(world / "q.png", (180, 90, 30))
    assert titles(world, query) == ["red", "green", "blue"]
    assert titles(world, query, at_least=0.8) == ["red"]
    (hit, *_) = SemanticIndex(world / "semantic", Colours()).find(ImageQuery(image=images.probe(query)))
    assert hit.source.file == str(world / "pictures" / "red.png")
    assert hit.thumbnail == images.probe(world / "pictures" / "red.png")


def test_a_second_run_adds_replaces_and_removes(world: Path) -> None:
    index_semantic([world / "pictures"], world, embedder=Colours())
    paint(world / "pictures" / "red.png", (10, 210, 20))
    (world / "pictures" / "blue.png").unlink()
    paint(world / "pictures" / "grey.png", (90, 90, 90))
    report = index_semantic([world / "pictures"], world, embedder=Colours())
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 1, 1)
    assert set(titles(world, paint(world / "q.png", (10, 200, 10)))[:2]) == {"red", "green"}
    assert len(titles(world, world / "q.png")) == 3


def test_another_model_needs_a_rebuild(world: Path) -> None:
    index_semantic([world / "pictures"], world, embedder=Colours())
    with pytest.raises(UserError, match="--rebuild"):
        index_semantic([world / "pictures"], world, SemanticOptions(model="other"), embedder=Colours())


def test_the_same_picture_comes_before_what_looks_alike(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for i in range(3):
        photo(i).save(tmp_path / "pictures" / f"p{i}.png")
    index_images([tmp_path / "pictures"], tmp_path)
    index_semantic([tmp_path / "pictures"], tmp_path, embedder=Colours())
    photo(1).crop((60, 40, 340, 250)).save(tmp_path / "q.png")
    services = open_search(tmp_path)
    assert isinstance(services.images, CachedImages)
    both = services.images._fallback
    assert isinstance(both, InTurn)
    both._parts = [both._parts[0], SemanticIndex(tmp_path / "semantic", Colours())]
    assert len(both) == 3
    query = ImageQuery(image=images.probe(tmp_path / "q.png"))
    found = [hit.source.title for hit in asyncio.run(both.search(query))]
    assert found[0] == "p1"
    assert sorted(found) == ["p0", "p1", "p2"]
    assert len(asyncio.run(both.search(query.__class__(image=query.image, top_k=1)))) == 1


@pytest.mark.torch
def test_a_clip_model_of_transformers_is_read_from_its_folder(world: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 9},
        vision_config={**small, "image_size": 32, "patch_size": 16},
        projection_dim=12,
    )
    transformers.CLIPModel(config).save_pretrained(world / "model")
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    transformers.CLIPImageProcessor(**sizes).save_pretrained(world / "model")
    options = SemanticOptions(model=str(world / "model"), kind="flat")
    assert index_semantic([world / "pictures"], world, options).added == 3
    index = SemanticIndex(world / "semantic")
    hits = index.find(ImageQuery(image=images.probe(world / "pictures" / "green.png")))
    assert hits[0].source.title == "green"
    assert hits[0].score == pytest.approx(1.0, abs=0.01)
    vectors = ClipEmbedder(str(world / "model")).pictures([images.probe(world / "pictures" / "red.png")])
    assert vectors.shape == (1, 12)
    with pytest.raises(UserError, match="cannot be loaded"):
        _ = ClipEmbedder(str(world / "none")).dim
