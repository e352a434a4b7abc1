"""The processes of a run, and what they say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from vlagent.errors import UserError
from vlagent.files import only_writer, read_json, write_json
from vlagent.train.stage0.config import Stage0Config

PARENT = "VLAGENT_STAGE0_PARENT"
"""Environment variable that tells a part by whom it was started."""


def launch(config: Stage0Config, folder: Path, words: Sequence[str]) -> None:
    """Run what is left of a run. Raises `UserError` where the folder holds a run with other settings, or is in use."""
    with only_writer(folder):
        _claim(config, folder)
        _launch(config, folder, words)


def _launch(config: Stage0Config, folder: Path, words: Sequence[str]) -> None:
    signal.signal(signal.SIGTERM, _leave)
    started = time.monotonic()
    (folder / "rendezvous").unlink(missing_ok=True)
    _together(folder, words, [("pictures", 0), ("pictures", 1)])
    _together(folder, words, [("vision", 0), ("decoder", 0)])
    _together(folder, words, [("join", here) for here in range(config.join.processes)])
    write_json(folder / "summary.json", {"wall_s": round(time.monotonic() - started, 1)})


def _claim(config: Stage0Config, folder: Path) -> None:
    path = folder / "config.json"
    if path.exists() and read_json(path) != config.model_dump(mode="json"):
        raise UserError(f"{folder}: holds a run with other settings ({path}); take another folder with --run")
    write_json(path, config)


def _together(folder: Path, words: Sequence[str], parts: Sequence[tuple[str, int]]) -> None:
    """Run processes side by side, one thread each; if one fails, the others are stopped and it is an error."""
    running = [_start(folder, words, name, here) for name, here in parts]
    try:
        while any(process.poll() is None for process in running):
            if any(process.poll() for process in running):
                break
            time.sleep(0.2)
    finally:
        for process in running:
            process.terminate()
            process.wait()
    failed = [name for (name, _), process in zip(parts, running, strict=True) if process.returncode]
    if failed:
        raise UserError(f"stage 0: the part {failed[0]} failed (its message is above); the same command goes on")


def _start(folder: Path, words: Sequence[str], name: str, here: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "vlagent", "stage0", *words, "--run", str(folder)]
    one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", PARENT: str(os.getpid())}
    return subprocess.Popen([*command, "--part", name, "--rank", str(here)], env=os.environ | one)


def _leave(number: int, frame: Any) -> NoReturn:  # noqa: ARG001
    """Ended from outside: stop the parts on the way out."""
    raise SystemExit(128 + number)


def end_with_parent() -> None:
    """In a part: do not outlive the process that started it, however that ended."""
    parent = int(os.environ.get(PARENT, "0"))

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if parent:
        threading.Thread(target=watch, daemon=True).start()
