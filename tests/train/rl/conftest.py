from __future__ import annotations

import gc
import shutil
from pathlib import Path

import pytest

from tests.train.episodes import Player, crop_then_answer, play, write_run
from tests.train.rl import world as parts


@pytest.fixture(scope="session")
def world(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """rows.jsonl, and model/: the tiny model after a few steps on demonstrations."""
    from accelerate.state import AcceleratorState

    import vlagent.train.rl.run  # noqa: F401
    from vlagent.config import make_config
    from vlagent.train.config import SftConfig
    from vlagent.train.sft import train_sft

    gc.freeze()  # every run begins with a whole collection, which these libraries' objects make slow
    folder = tmp_path_factory.mktemp("world")
    samples = parts.make_questions(folder)
    parts.write_rows(folder / "rows.jsonl", samples)
    demos = write_run(folder / "demos", samples, play(samples, Player(samples, crop_then_answer)))
    table = {
        "run": str(folder / "sft"),
        "epochs": 44,
        "model": {"path": str(tiny), "device": "cpu", "threads": 1},
        "sources": [{"run": str(demos)}],
        "batch": {"rows": 6},
        "optim": {"lr": 1e-2},
        "save": {"every": 1000},
    }
    train_sft(make_config(SftConfig, table))
    AcceleratorState._reset_state(reset_partial_state=True)
    shutil.move(folder / "sft" / "model", folder / "model")
    return folder


@pytest.fixture(scope="session")
def ruined(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that unlearns, and is validated after every step."""
    from accelerate.state import AcceleratorState

    from vlagent.train.rl.run import train_rl

    run = tmp_path_factory.mktemp("ruined") / "run"
    train_rl(parts.examined(world, run))
    AcceleratorState._reset_state(reset_partial_state=True)
    return run


@pytest.fixture(scope="session")
def whole(world: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody disturbs."""
    from accelerate.state import AcceleratorState

    from vlagent.train.rl.run import train_rl

    run = tmp_path_factory.mktemp("whole") / "run"
    train_rl(parts.config(world, run))
    AcceleratorState._reset_state(reset_partial_state=True)
    return run
