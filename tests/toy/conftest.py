from __future__ import annotations

from pathlib import Path

import pytest

from tests.toy.parts import CONFIG, World
from vlagent.data.manifest import load_samples
from vlagent.search.base import TextSearch
from vlagent.search.open import open_search
from vlagent.search.text_build import index_text
from vlagent.tools.registry import make_tools
from vlagent.toy.controls import Setup
from vlagent.toy.world import WorldConfig, make_world


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("toy")
    make_world(folder / "w", CONFIG)
    samples = load_samples(f"{folder}/w/manifest.json:toy_test")
    tools = make_tools(["image_crop", "text_search", "image_search"])
    scenes = [sample.images[0] for sample in samples]
    setup = Setup(tools, open_search(folder / "w" / "test" / "search"), _other_text(folder), scenes)
    return World(folder / "w", samples, setup)


def _other_text(folder: Path) -> TextSearch:
    make_world(folder / "other", WorldConfig(seed=11, per_kind={"val": 1}), index=False)
    index_text([folder / "other" / "val" / "corpus.jsonl"], folder / "other-search")
    found = open_search(folder / "other-search").text
    assert found is not None
    return found
