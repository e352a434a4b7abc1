"""Runs an ablation: as many processes at once as cores, nothing twice, and on where it was when it was killed."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from vlagent.bench.ablation import RunResult
from vlagent.errors import ServiceError, UserError
from vlagent.files import only_writer, read_json, write_json
from vlagent.train.ablate.board import Board
from vlagent.train.ablate.config import AblateConfig, PrepareConfig
from vlagent.train.ablate.plan import Job, command, config_of, digest_of, jobs_of, prepare_words, shown
from vlagent.train.ablate.processes import Child, Ended
from vlagent.train.ablate.result import collect
from vlagent.train.ablate.work import TRIES, Work
from vlagent.train.interrupt import Interrupt

LOOK_EVERY_S = 0.25
OnResult = Callable[[RunResult], None]


@dataclass
class Outcome:
    """How a call ended."""

    ended: Literal["complete", "failures", "stopped"]
    failed: dict[str, str] = field(default_factory=dict)
    """Run -> why, and where its log is."""


def run_ablation(config: AblateConfig, on_result: OnResult | None = None) -> Outcome:
    """Prepare, run and keep everything that is not there yet; Ctrl-C lets trainings write their checkpoints.

    Raises `UserError` for a mistake in the configuration, also one that a run's own process found, and where a kept
    result is of other settings.
    """
    with only_writer(Path(config.run)), Interrupt() as interrupt, Board() as board:
        for number, step in enumerate(config.prepare):
            if not _prepare(config, number, step, board, interrupt):
                return Outcome("stopped")
        return _Ablation(config, board, interrupt, on_result).go()


def _prepare(config: AblateConfig, number: int, step: PrepareConfig, board: Board, interrupt: Interrupt) -> bool:
    """False where it was stopped."""
    if Path(step.makes).exists():
        return True
    words = prepare_words(step)
    if step.fresh and "--resume" not in words:
        shutil.rmtree(step.fresh, ignore_errors=True)
    board.say(f"preparing: {shown(words)}")
    child = Child(command(words), Path(config.run) / f"prepare-{number}.txt")
    ended = _wait(child, interrupt)
    if interrupt.asked:
        return False
    if ended.code != 0 or not Path(step.makes).exists():
        _raise(f"{shown(words)}", ended, child)
    return True


def _wait(child: Child, interrupt: Interrupt) -> Ended:
    while (ended := child.poll()) is None:
        if interrupt.asked:
            child.terminate()
            return child.wait()
        time.sleep(LOOK_EVERY_S)
    return ended


def _raise(what: str, ended: Ended, child: Child) -> None:
    said = f"{what}: {child.last_line().removeprefix('vlagent: ') or f'exit code {ended.code}'}"
    if ended.code == 3:
        raise ServiceError("ablate", said)
    raise UserError(f"{said} (see {child.log})")


class _Ablation:
    """The jobs that are left, those that run, those that failed."""

    def __init__(self, config: AblateConfig, board: Board, interrupt: Interrupt, on_result: OnResult | None) -> None:
        self.config, self.board, self.interrupt, self.on_result = config, board, interrupt, on_result
        jobs = jobs_of(config)
        self.left = [Work(config, job, steps=config_of(config, job).steps) for job in jobs if not is_kept(config, job)]
        self.running: list[Work] = []
        self.failed: dict[str, str] = {}
        self.parallel = parallel_runs(config)
        board.begin(len(jobs), len(jobs) - len(self.left), self.parallel)

    def go(self) -> Outcome:
        """Until nothing is left, or someone wants an end."""
        try:
            while self.left or self.running:
                if self.interrupt.asked:
                    return Outcome("stopped", self.failed)
                self._fill()
                self._look()
                self.board.show(self.running, len(self.left))
                time.sleep(LOOK_EVERY_S)
        finally:
            self._end_all()
        return Outcome("failures" if self.failed else "complete", self.failed)

    def _fill(self) -> None:
        while self.left and len(self.running) < self.parallel:
            self._go_on(self.left.pop(0))

    def _go_on(self, work: Work) -> None:
        """Start what comes next of a run, or keep its result."""
        stage = work.next_stage()
        if stage is None:
            self._keep(work)
        elif stage == "rl" and work.left_s() <= 0:
            self._fail(work, self._too_long())
        else:
            work.start(stage)
            if work not in self.running:
                self.running.append(work)

    def _too_long(self) -> str:
        return f"needs more than {self.config.limits.core_minutes:g} core-minutes; lower steps"

    def _look(self) -> None:
        for work in list(self.running):
            ended = work.child.poll() if work.child else None
            if ended is None:
                work.tally()
            else:
                self._after(work, ended)

    def _after(self, work: Work, ended: Ended) -> None:
        child = work.child
        assert child is not None
        work.ended(ended)
        if ended.code == 2:
            self.running.remove(work)
            _raise(work.job.name, ended, child)
        if ended.over_limit:
            self._fail(work, self._too_long())
        elif ended.code == 0 or (ended.code < 0 and work.tries < TRIES):
            self._go_on_or_drop(work)
        else:
            self._fail(work, f"exit code {ended.code}: {child.last_line()}")

    def _go_on_or_drop(self, work: Work) -> None:
        self._go_on(work)
        if work.child is None and work in self.running:
            self.running.remove(work)

    def _keep(self, work: Work) -> None:
        result = collect(self.config, work.job, work.lines)
        write_json(result_path(self.config, work.job), result)
        self.board.finished(work, result)
        if self.on_result:
            self.on_result(result)

    def _fail(self, work: Work, why: str) -> None:
        self.failed[work.job.name] = f"{why} (see {work.log})"
        self.board.say(f"{work.job.name} failed: {self.failed[work.job.name]}")
        if work in self.running:
            self.running.remove(work)

    def _end_all(self) -> None:
        """Ask all to end, then wait: a training's checkpoint takes a step's time."""
        children = [(work, work.child) for work in self.running if work.child]
        for _, child in children:
            child.terminate()
        for work, child in children:
            work.ended(child.wait())


def parallel_runs(config: AblateConfig) -> int:
    """Runs at one time."""
    return config.limits.parallel or len(os.sched_getaffinity(0))


def result_path(config: AblateConfig, job: Job) -> Path:
    """Where the result of a run is kept."""
    return Path(config.results) / "runs" / f"{job.name}.json"


def is_kept(config: AblateConfig, job: Job) -> bool:
    """Whether a run has its result. `UserError` where that is of other settings."""
    path = result_path(config, job)
    if not path.exists():
        return False
    try:
        kept = RunResult.model_validate(read_json(path))
    except ValidationError:
        raise UserError(f"{path}: not the result of a run; remove it, and the run is made again") from None
    if kept.config != digest_of(config, job):
        raise UserError(f"{path}: was run with other settings; remove it, or choose another results folder")
    return True
