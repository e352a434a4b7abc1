"""A checkpoint folder that is not whole is the user's error in one line, and never a model with random weights."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from vlagent.errors import UserError
from vlagent.model.load import load_policy

WEIGHTS = "model.safetensors"


@pytest.fixture(scope="module")
def whole(policy: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "model"
    policy.save(folder)
    return folder


def _cut(name: str) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        raw = (folder / name).read_bytes()
        (folder / name).write_bytes(raw[: len(raw) // 2])

    return cut


def _without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def _says(**changes: Any) -> Callable[[Path], None]:
    """The decoder's part of config.json says something else than the weights."""

    def change(folder: Path) -> None:
        table = json.loads((folder / "config.json").read_text())
        table["text_config"] |= changes
        (folder / "config.json").write_text(json.dumps(table))

    return change


def _lacks_a_weight(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights.pop(next(name for name in weights if "input_layernorm" in name))
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_cut(WEIGHTS), "damaged file"),
        (lambda folder: (folder / WEIGHTS).write_text(""), "damaged file"),
        (_without(WEIGHTS), "cannot be loaded"),
        (_lacks_a_weight, "1 weights are missing from its files, the first .*input_layernorm"),
        (_says(num_hidden_layers=7), "weights are missing|damaged file"),
        (_says(intermediate_size=12), "the shape that config.json says"),
        (_says(hidden_size="big"), "damaged file"),
        (_cut("config.json"), "not JSON"),
        (lambda folder: (folder / "config.json").write_text("[]"), "supported are qwen3_vl"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "marsian"}'), "architecture 'marsian'"),
        (_cut("tokenizer.json"), "cannot be loaded"),
        (_without("tokenizer.json"), "cannot be loaded"),
        (_without("processor_config.json"), "cannot be loaded"),
        (_cut("generation_config.json"), "cannot be loaded"),
    ],
)
def test_a_damaged_checkpoint_is_one_line(
    damage: Callable[[Path], None], message: str, whole: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "model"))
    damage(folder)
    with pytest.raises(UserError, match=message) as error:
        load_policy(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def test_weights_that_are_not_used_are_named_and_the_model_loads(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "model"))
    weights = load_file(folder / WEIGHTS)
    save_file(
        weights | {"model.odd": next(iter(weights.values())).clone()}, folder / WEIGHTS, metadata={"format": "pt"}
    )
    load_policy(folder)
    assert re.search(r"1 weights are not used, the first model\..*odd", caplog.text)


def test_an_attention_that_is_not_installed_is_one_line(whole: Path) -> None:
    with pytest.raises(UserError, match="FlashAttention2"):
        load_policy(whole, attention="flash_attention_2")
