from __future__ import annotations

import json
import multiprocessing
import os
import socket
from pathlib import Path

import pytest

from tests.train.rl.world import config, steps
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.recorded import read_groups
from vlagent.train.rl.run import train_rl


def _rank(rank: int, port: int, settings: RlConfig) -> None:
    """What a launcher sets for each of two processes."""
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2}
    os.environ |= {name: str(value) for name, value in where.items()}
    train_rl(settings)


def _launch_two(settings: RlConfig) -> list[int | None]:
    """Exit codes. Forked, so that nothing is imported again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_rank, args=(rank, port, settings)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return [process.exitcode for process in processes]


def test_two_processes_share_the_episodes_and_equal_one_on_what_they_played(world: Path, tmp_path: Path) -> None:
    """Five questions for two processes, two minibatches, passes of uneven number, a reference model."""
    changes = ("batch.prompts=5", "batch.minibatches=2", "batch.micro_rows=3", "steps=2", "algorithm.beta=0.1")
    two = tmp_path / "two"
    assert _launch_two(config(world, two, *changes)) == [0, 0]
    assert [len(group.trajectories) for group in read_groups(two / "rollouts", 1)] == [6] * 5
    train_rl(config(world, tmp_path / "one", *changes, f"debug.replay={two / 'rollouts'}"))
    for a, b in zip(steps(tmp_path / "one"), steps(two), strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert b[name] == pytest.approx(a[name], rel=2e-3, abs=2e-5), name


def test_where_one_process_fails_both_end_with_a_checkpoint(world: Path, tmp_path: Path) -> None:
    """The judge is dead for both, but the first question that needs it comes to one of them alone."""
    run = tmp_path / "run"
    judge = 'rewards.judge={model="m", base_url="http://127.0.0.1:9/v1", attempts=1}'
    codes = _launch_two(config(world, run, judge, "rewards.max_fault_share=0.0"))
    assert codes == [1, 1]
    assert len(list((run / "checkpoints").glob("step-*"))) == 1
    assert not (run / "summary.json").exists()
    assert json.loads((run / "config.json").read_text())["steps"] == 3
