from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.rl.world import config, steps
from vlagent.train.folder import start_folder
from vlagent.train.rl.recorded import read_groups
from vlagent.train.rl.run import train_rl


@pytest.mark.slow
def test_two_processes_share_the_episodes_and_equal_one_on_what_they_played(world: Path, tmp_path: Path) -> None:
    """Five questions for two processes, two minibatches, passes of uneven number."""
    changes = ("batch.prompts=5", "batch.minibatches=2", "batch.micro_rows=3", "steps=2", "algorithm.beta=0.1")
    two = tmp_path / "two"
    start_folder(two, config(world, two, *changes))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*launcher, "-m", "vlagent", "rl", "--resume", str(two)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 process(es)" in done.stderr
    assert [len(group.trajectories) for group in read_groups(two / "rollouts", 1)] == [4] * 5
    train_rl(config(world, tmp_path / "one", *changes, f"debug.replay={two / 'rollouts'}"))
    for a, b in zip(steps(tmp_path / "one"), steps(two), strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert b[name] == pytest.approx(a[name], rel=2e-3, abs=2e-5), name
