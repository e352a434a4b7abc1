"""What a run of fine-tuning does to its folder when something is wrong, or when it is interrupted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.train.test_sft import _as_row, _config, _metrics
from vlagent.errors import UserError
from vlagent.files import only_writer
from vlagent.train.folder import read_sft_config
from vlagent.train.sft import SftTrainer, train_sft

AGENT = 'workflow = "direct", max_tokens_turn = 4, pixels = {factor = 16, min_pixels = 4608, max_pixels = 9216}'


@pytest.mark.parametrize(
    "mistake", ['model.path="nowhere"', 'sources=[{run = "nowhere"}]', 'validation.data="nowhere.json"']
)
def test_a_mistake_leaves_the_folder_free_for_the_next_try(
    mistake: str, tiny: Path, demo_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(UserError, match="nowhere"):
        train_sft(_config(tiny, demo_run, run, "max_steps=1", mistake))
    assert train_sft(_config(tiny, demo_run, run, "max_steps=1")).ended == "complete"


def test_two_processes_never_write_in_one_folder(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = _config(tiny, demo_run, run, "max_steps=1")
    with only_writer(run), pytest.raises(UserError, match="another process is writing here"):
        train_sft(config)
    train_sft(config)
    before = (run / "summary.json").read_text()
    with only_writer(run), pytest.raises(UserError, match="another process is writing here"):
        train_sft(config, resume=True)
    assert (run / "summary.json").read_text() == before


def test_a_folder_of_something_else_is_not_to_be_resumed(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=r"not empty; choose another run=DIR"):
        train_sft(_config(tiny, demo_run, tmp_path, "max_steps=1"))


def _examined(tiny: Path, demo_run: Path, folder: Path, *more: str) -> Any:
    samples = [json.loads(line) for line in (demo_run / "samples.jsonl").read_text().splitlines()][:3]
    (folder / "rows.jsonl").write_text("".join(json.dumps(_as_row(sample)) + "\n" for sample in samples))
    check = (f'validation.data="{folder / "rows.jsonl"}"', "validation.every=1", f"validation.agent={{{AGENT}}}")
    return _config(tiny, demo_run, folder / "run", *check, *more)


def test_resuming_a_finished_run_keeps_what_it_measured(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    config = _examined(tiny, demo_run, tmp_path, "max_steps=1")
    first = train_sft(config)
    assert first.loss
    assert first.success_scored == 3
    assert train_sft(read_sft_config(tmp_path / "run"), resume=True) == first


@pytest.mark.parametrize("steps", [1, 2])
def test_an_interrupted_validation_measures_nothing_and_is_made_up_for(
    steps: int, tiny: Path, demo_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _examined(tiny, demo_run, tmp_path, f"max_steps={steps}", "validation.concurrency=1")
    sit = SftTrainer._success

    def interrupted(self: SftTrainer, exam: Any, interrupt: Any) -> tuple[int, int]:
        interrupt.asked = True
        return sit(self, exam, interrupt)

    with monkeypatch.context() as patch:
        patch.setattr(SftTrainer, "_success", interrupted)
        ended = train_sft(config)
    assert (ended.ended, ended.steps, ended.success, ended.model) == ("stopped", 1, None, None)
    whole = train_sft(read_sft_config(tmp_path / "run"), resume=True)
    assert (whole.ended, whole.success_scored) == ("complete", 3)
    checks = [(line["step"], line["success_scored"]) for line in _metrics(tmp_path / "run") if "success" in line]
    assert checks == [(step, 3) for step in range(1, steps + 1)]
