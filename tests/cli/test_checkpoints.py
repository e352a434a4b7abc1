"""The checkpoints in the package: what they are, that their card's commands still make the like, that scores repeat."""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vlagent.cli.shipped import CHECKPOINTS, settings_of, shipped

pytest.importorskip("torch", reason="models in this process need the extra [train]")
pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
NAMES = ("base", "sft", "sft-clean", "trained", "rl")
MEGABYTES = 20


def _tensors(folder: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
    return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_all_are_there_in_half_precision_and_small() -> None:
    assert set(shipped()) >= set(NAMES)
    assert sum(path.stat().st_size for path in CHECKPOINTS.rglob("*")) < MEGABYTES * 2**20
    for name in shipped():
        assert {kind for kind, _ in _tensors(CHECKPOINTS / name).values()} == {"F16"}
        assert settings_of(f"shipped:{name}")["prompts"]["system"]


def test_they_differ_in_nothing_but_their_weights() -> None:
    assert all(_tensors(CHECKPOINTS / name) == _tensors(CHECKPOINTS / "base") for name in shipped())
    for file in ("tokenizer.json", "chat_template.jinja", "processor_config.json", "agent.json"):
        assert len({_digest(CHECKPOINTS / name / file) for name in shipped()}) == 1, file
    assert len({_digest(CHECKPOINTS / name / "model.safetensors") for name in shipped()}) == len(shipped())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_commands_of_the_card_make_the_like(tmp_path: Path) -> None:
    script = ROOT / "configs" / "stage0" / "retrain.sh"
    environment = os.environ | {"OUT": str(tmp_path), "PYTHON": sys.executable, "SMALL": "1"}
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name in NAMES:
        made, kept = tmp_path / name, CHECKPOINTS / name
        assert _tensors(made) == _tensors(kept)
        assert all(_tensors(CHECKPOINTS / name) == _tensors(CHECKPOINTS / "base") for name in shipped())
    for file in ("tokenizer.json", "agent.json"):
        assert _digest(made / file) == _digest(kept / file), file


@pytest.mark.parametrize("name", ["sft", "rl", "trained"])
def test_the_scores_of_the_card_repeat(name: str, tmp_path: Path) -> None:
    """Within two standard errors of the difference, on other questions and other draws."""
    from accept.issue_2 import open_world, play

    each = 12
    card = json.loads((CHECKPOINTS / "scores.json").read_text())["worlds"]["level 2"]
    said = sum(card["right"][name].values()) / (5 * card["each"])
    counts = play(f"shipped:{name}", open_world(tmp_path / "world", each), tmp_path / "run").counts
    assert counts.total == counts.scored == 5 * each
    spread = math.sqrt(said * (1 - said) * (1 / counts.total + 1 / (5 * card["each"])))
    assert abs(counts.right / counts.total - said) <= 2 * spread + 0.5 / counts.total
