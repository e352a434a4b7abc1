"""Ctrl-C and SIGTERM end a run in order: the step is finished, a checkpoint written. The second ends it at once."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """Inside a `with`, `asked` turns True when someone wants the run to end."""

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._before = {name: signal.signal(name, self._hear) for name in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _hear(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.asked = True
        self._restore()
        print("vlagent: finishing the step and writing a checkpoint; once more ends at once", file=sys.stderr)

    def _restore(self) -> None:
        for name, handler in self._before.items():
            signal.signal(name, handler)
        self._before = {}
