from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vlagent.chat.base import ImagePart
from vlagent.types import ImageRef

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]

SIZES = ((96, 96), (96, 48), (64, 80), (96, 96))


@pytest.fixture(scope="session", params=["qwen3_vl", "qwen2_5_vl"])
def policy(request: pytest.FixtureRequest) -> Any:
    """A tiny random policy of each architecture, with deepstack features that matter."""
    import torch

    from vlagent.model.tiny import TinySpec, make_policy

    torch.set_num_threads(1)
    made = make_policy(TinySpec(architecture=request.param), seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, weight in made.model.named_parameters():
            if "deepstack_merger" in name and "linear_fc2" in name:
                weight.copy_(0.1 * torch.randn(weight.shape, generator=generator))
    return made


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[ImagePart]:
    """Four noise pictures of three sizes."""
    folder: Path = tmp_path_factory.mktemp("pictures")
    random = np.random.default_rng(3)
    made = []
    for i, (width, height) in enumerate(SIZES):
        path = folder / f"{i}.png"
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
        made.append(ImagePart(ImageRef(path=str(path), width=width, height=height), (width, height)))
    return made
