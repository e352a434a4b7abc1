"""What a person sees of a run: a bar with the time left on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

EVERY_S = 30.0
"""Between two lines where there is no terminal."""


class Meter:
    """Told every step; writes to stderr. Silent in all processes but the first."""

    def __init__(self, total: int, done: int, *, silent: bool = False) -> None:
        self._total, self._first, self._silent = total, done, silent
        self._started = self._said = time.monotonic()
        self._bar: Progress | None = None
        if sys.stderr.isatty() and not silent:
            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=total, completed=done)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def step(self, done: int, values: dict[str, Any]) -> None:
        """After a step; `values` are its metrics."""
        words = self.words(values)
        if self._bar:
            self._bar.update(self._task, completed=done, description=words)
        elif time.monotonic() - self._said >= EVERY_S or done == self._total:
            self._said = time.monotonic()
            self.say(f"step {done}/{self._total}  {words}  {clock(self._remaining(done))} left")

    def words(self, values: dict[str, Any]) -> str:
        """What is shown of a step's metrics."""
        return f"loss {values['loss']:.4f}  {values['tokens_per_s']:,.0f} tokens/s"

    def say(self, text: str) -> None:
        """One line."""
        if self._bar:
            self._bar.console.print(text, highlight=False, markup=False)
        elif not self._silent:
            print(f"vlagent: {text}", file=sys.stderr, flush=True)

    def _remaining(self, done: int) -> float:
        spent = time.monotonic() - self._started
        return spent / max(1, done - self._first) * (self._total - done)


def clock(seconds: float) -> str:
    """`1:02:03`"""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"
