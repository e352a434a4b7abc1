"""Kill a verb in mid-work, again and again, then let it finish."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path


def killed_until_done(verb: str, folder: Path, count: int, delay_s: float, kills: int) -> int:
    """How often it was really killed."""
    done = 0
    for _ in range(kills):
        process = start(verb, folder, count, delay_s)
        before = lines(folder / "answered.txt")
        while process.poll() is None and lines(folder / "answered.txt") < before + 12:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        done += process.wait(60) == -signal.SIGKILL
    assert start(verb, folder, count, 0.0).wait(120) == 0
    return done


def start(verb: str, folder: Path, count: int, delay_s: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.curate.world", verb, str(folder), str(count), str(delay_s)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def paid_twice(folder: Path) -> int:
    """Answers that were given more than once."""
    return sum(count - 1 for count in Counter((folder / "answered.txt").read_text().splitlines()).values())
