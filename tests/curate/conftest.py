from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from vlagent.images import probe
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world
from vlagent.types import ImageRef


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten questions, two of each kind."""
    folder = tmp_path_factory.mktemp("curate") / "toy"
    make_world(folder, WorldConfig(seed=23, per_kind={"test": 2}, system_prompt=SYSTEM_PROMPT))
    return folder


@pytest.fixture
def picture(tmp_path: Path) -> ImageRef:
    path = tmp_path / "noise.png"
    Image.effect_noise((96, 64), 90.0).convert("RGB").save(path)
    return probe(path)
