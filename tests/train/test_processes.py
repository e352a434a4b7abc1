from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _launch(processes: int, words: list[str]) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [*launcher, "-m", "vlagent", "sft", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200, check=False)


def _lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_two_processes_equal_one_on_the_same_rows(tiny: Path, demo_run: Path, tmp_path: Path) -> None:
    """Also where a step has fewer rows than fit evenly, rows without pictures of their own part, and a resumption."""
    from vlagent.config import load_config
    from vlagent.train.config import SftConfig
    from vlagent.train.sft import train_sft

    (tmp_path / "c.toml").write_text(
        f'[model]\npath = "{tiny}"\ndevice = "cpu"\nthreads = 1\nfreeze = ["projector"]\n'
        f'[[sources]]\nrun = "{demo_run}"\n[batch]\nrows = 5\nmicro_rows = 2\n[optim]\nlr = 3e-3\n[save]\nevery = 3\n'
        f'[validation]\nevery = 3\nsources = [{{run = "{demo_run}", limit = 5}}]\n'
    )
    words = [str(tmp_path / "c.toml"), "epochs=2", f"run={tmp_path / 'two'}"]
    done = _launch(2, words)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 process(es)" in done.stderr
    train_sft(load_config(SftConfig, tmp_path / "c.toml", ["epochs=2", f"run={tmp_path / 'one'}"]))
    for one, two in zip(_lines(tmp_path / "one"), _lines(tmp_path / "two"), strict=True):
        assert one["step"] == two["step"]
        for name in ("loss", "grad_norm", "validation_loss"):
            if name in one:
                assert two[name] == pytest.approx(one[name], rel=2e-4)
    summaries = [json.loads((tmp_path / name / "summary.json").read_text()) for name in ("one", "two")]
    assert summaries[0]["rows"] == summaries[1]["rows"] == 24
