"""Real kills of a real process."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time

from tests.bench.test_evaluate import without_timing
from tests.bench.world import questions, run_here
from vlagent.files import read_records
from vlagent.types import Trajectory

COUNT, DELAY_S = 50, 0.03


def start(run):
    command = [sys.executable, "-m", "tests.bench.world", str(run), str(COUNT), str(DELAY_S)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})


def test_kills_at_random_moments_change_nothing_in_the_result(tmp_path):
    whole, run, rng = tmp_path / "whole", tmp_path / "run", random.Random(4)
    asyncio.run(run_here(whole, questions(COUNT), k=2, concurrency=8, workflow="agent"))
    kills = 0
    for _ in range(20):
        process = start(run)
        if kills < 4:
            wait_for_lines(run / "trajectories.jsonl", rng.randrange(5, 25), process)
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            kills += process.wait(60) == -signal.SIGKILL
        elif process.wait(60) == 0:
            break
    assert kills >= 3
    assert without_timing(run) == without_timing(whole)
    played = [(each.sample_id, each.rollout) for each in read_records(run / "trajectories.jsonl", Trajectory)]
    assert len(played) == len(set(played)) == 2 * COUNT


def wait_for_lines(path, more, process):
    """Until the process has written that many new lines, or is over."""
    before = lines_of(path)
    while process.poll() is None and lines_of(path) < before + more:
        time.sleep(0.005)


def lines_of(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0
