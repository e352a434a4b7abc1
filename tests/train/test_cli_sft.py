from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from vlagent.cli.main import main


@pytest.fixture
def config(tiny: Path, demo_run: Path, tmp_path: Path) -> Path:
    file = tmp_path / "c.toml"
    file.write_text(
        f'run = "{tmp_path / "run"}"\nepochs = 40\n[model]\npath = "{tiny}"\ndevice = "cpu"\nthreads = 1\n'
        f'[[sources]]\nrun = "{demo_run}"\n[batch]\nrows = 4\n[save]\nevery = 1000\n'
    )
    return file


def test_a_run_prints_the_folder_that_transformers_loads(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer

    assert main(["sft", str(config), "max_steps=1"]) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(tmp_path / "run" / "model")
    assert "1 steps" in err
    assert AutoConfig.from_pretrained(out.strip()).model_type == "qwen3_vl"
    assert AutoTokenizer.from_pretrained(out.strip()).encode("x")
    assert sum(w.numel() for w in AutoModelForImageTextToText.from_pretrained(out.strip()).parameters()) > 0


def test_a_dry_run_shows_settings_and_memory_and_trains_nothing(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["sft", str(config), "optim.lr=0.5", "--dry-run"], ["plan", str(config), "optim.lr=0.5"]):
        assert main(words) == 0
        out = capsys.readouterr().out
        assert '"lr": 0.5' in out
        assert "ESTIMATE" in out
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which configuration?"),
        (["a.toml", "b.toml"], "'b.toml': one configuration file"),
        (["--resume", "/nowhere"], "/nowhere/config.json: no such file"),
        (["/nowhere.toml"], "no such configuration file"),
    ],
)
def test_a_users_mistake_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sft", *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_ctrl_c_exits_with_130_and_resume_goes_on(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    child = multiprocessing.get_context("fork").Process(target=lambda: sys.exit(main(["sft", str(config)])))
    child.start()
    deadline = time.monotonic() + 60
    while not (run / "metrics.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert child.pid is not None
    os.kill(child.pid, signal.SIGINT)
    child.join(60)
    assert child.exitcode == 130
    capsys.readouterr()
    assert main(["sft", "--resume", str(run), "optim.lr=0.1"]) == 2
    assert "optim.lr was 1e-05 and is now 0.1" in capsys.readouterr().err
    assert main(["sft", "--resume", str(run), "save.every=50"]) == 0
    assert json.loads((run / "summary.json").read_text())["steps"] == 120
