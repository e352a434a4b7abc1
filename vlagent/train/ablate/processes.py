"""Child processes that end with their parent, are measured, and stay within their limit of processor time."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import psutil

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    """Its exit code; minus the signal that ended it."""
    core_s: float
    wall_s: float

    @property
    def over_limit(self) -> bool:
        """Whether its processor time was used up."""
        return self.code == -signal.SIGXCPU


@dataclass
class Child:
    """A running process of one thread, with what it says in a file."""

    command: Sequence[str]
    log: Path
    limit_s: float | None = None
    """Processor seconds that it may use."""
    _process: subprocess.Popen[bytes] = field(init=False)
    _started: float = field(init=False, default_factory=monotonic)

    def __post_init__(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **ONE_THREAD},
                start_new_session=True,  # Ctrl-C comes to us alone, who end it in order
                preexec_fn=self._bind,
            )

    def _bind(self) -> None:
        """In the child: no orphan may go on writing where a resumed ablation writes."""
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.limit_s is not None:
            soft = max(1, round(self.limit_s))
            resource.setrlimit(resource.RLIMIT_CPU, (soft, soft + 5))

    def poll(self) -> Ended | None:
        """How it ended, or None while it runs."""
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        return self._ended(status, usage) if pid else None

    def core_s(self) -> float:
        """Processor seconds so far; 0 where it has just ended."""
        try:
            used = psutil.Process(self._process.pid).cpu_times()
        except psutil.NoSuchProcess:
            return 0.0
        return float(used.user + used.system)

    def wait(self) -> Ended:
        """Wait for its end."""
        _, status, usage = os.wait4(self._process.pid, 0)
        return self._ended(status, usage)

    def _ended(self, status: int, usage: resource.struct_rusage) -> Ended:
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return Ended(self._process.returncode, usage.ru_utime + usage.ru_stime, monotonic() - self._started)

    def terminate(self) -> None:
        """Ask it to end: a training writes its checkpoint first."""
        self._process.terminate()

    def last_line(self) -> str:
        """What it said last."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else ""
