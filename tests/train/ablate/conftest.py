from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from vlagent.config import make_config
from vlagent.train.ablate import plan, run, work
from vlagent.train.ablate.config import AblateConfig

STAND_IN = str(Path(__file__).parent / "stand_in.py")
BASE = """
steps = 3
[model]
path = "start"
[data]
sources = [{ data = "rows.jsonl" }]
[algorithm]
beta = 0.0
"""


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., AblateConfig]:
    """An ablation of two arms and two seeds in a folder of its own, with changes."""
    (tmp_path / "base.toml").write_text(BASE)

    def made(*changes: str) -> AblateConfig:
        table: dict[str, Any] = {
            "run": str(tmp_path / "work"),
            "results": str(tmp_path / "results"),
            "base": str(tmp_path / "base.toml"),
            "seeds": [1, 2],
            "arms": {"gspo": {"algorithm": {"advantage": "gspo"}}, "bn_gspo": {"algorithm": {"advantage": "bn_gspo"}}},
            "mixes": {"hybrid": {}},
            "starts": {"full": {"model": {"path": str(tmp_path / "start")}}},
            "grid": [{"arms": ["gspo", "bn_gspo"], "mixes": ["hybrid"], "starts": ["full"]}],
            "evaluation": {"data": "rows.jsonl"},
            "limits": {"parallel": 2},
        }
        return make_config(AblateConfig, table, list(changes))

    return made


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the stand-in instead of `python -m vlagent`."""

    def command(words: Sequence[str]) -> list[str]:
        return [sys.executable, "-I", "-S", STAND_IN, *words]

    for module in (plan, run, work):
        monkeypatch.setattr(module, "command", command)
