from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
collect_ignore_glob = [] if find_spec("torch") and find_spec("transformers") else ["test_*.py"]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a very small random Qwen3-VL."""
    import torch

    from vlagent.model.tiny import TinySpec, TinyText, TinyVision, make_policy

    torch.set_num_threads(1)
    text = TinyText(hidden=48, layers=2, heads=2, kv_heads=1, head_dim=32, ff=64)
    vision = TinyVision(hidden=32, depth=1, heads=2, ff=32)
    folder = tmp_path_factory.mktemp("tiny") / "model"
    make_policy(TinySpec(text=text, vision=vision), seed=1).save(folder)
    return folder


@pytest.fixture(scope="session")
def processor(tiny: Path) -> Any:
    from vlagent.model.load import load_processor

    return load_processor(tiny)


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve right episodes of one to three turns."""
    from tests.train.episodes import Player, crop_then_answer, make_samples, play, write_run

    folder = tmp_path_factory.mktemp("episodes")
    samples = make_samples(folder / "pictures", 12)
    return write_run(folder / "run", samples, play(samples, Player(samples, crop_then_answer)))


@pytest.fixture(autouse=True)
def _own_processes() -> Iterator[None]:
    """accelerate keeps one state a process; each run starts anew."""
    yield
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
