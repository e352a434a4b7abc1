"""What a person sees of an ablation: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from vlagent.bench.ablation import RunResult, accuracy
from vlagent.train.ablate.work import Work
from vlagent.train.progress import clock

EVERY_S = 30.0
"""Between two lines where there is no terminal."""
LOOK_S = 2.0
"""Between two looks at how far the runs are."""


class Board:
    """Told what runs and what is done; writes to stderr."""

    def __init__(self) -> None:
        self._started = self._said = self._looked = time.monotonic()
        self._total = self._done = self._first = 0
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> Board:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def begin(self, total: int, done: int, parallel: int) -> None:
        """Before the first run of this call."""
        self._total, self._done, self._first, self._started = total, done, done, time.monotonic()
        self.say(f"{total} runs, {done} done, {parallel} at one time")

    def finished(self, work: Work, result: RunResult) -> None:
        """A run has its result."""
        self._done += 1
        self.say(
            f"{self._done}/{self._total} {work.job.name}: success {accuracy(result):.3f} "
            f"on {len(result.kinds)} questions, {result.core_s / 60:.1f} core-minutes of training"
        )

    def show(self, running: Sequence[Work], left: int) -> None:
        """How far everything is, at most every few seconds."""
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        shares = sum(work.share() for work in running)
        done = self._done - self._first + shares
        ahead = left + len(running) - shares
        eta = clock((now - self._started) / done * ahead) if done > 0.05 else "?"
        words = ", ".join(f"{work.job.name} {work.share():.0%}" for work in running)
        if self._bar:
            description = f"{self._done}/{self._total} runs  {words}  {eta} left"
            self._bar.update(self._task, completed=(self._done + shares) / max(1, self._total), description=description)
        elif now - self._said >= EVERY_S:
            self._said = now
            self.say(f"{self._done}/{self._total} runs done; {words}; {eta} left")

    def say(self, text: str) -> None:
        """One line."""
        if self._bar:
            self._bar.console.print(f"vlagent: {text}", highlight=False, markup=False)
        else:
            print(f"vlagent: {text}", file=sys.stderr, flush=True)
