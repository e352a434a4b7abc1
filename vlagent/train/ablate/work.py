"""One run of an ablation on its way: its processes in order, what they used, and what is left after a kill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from vlagent.errors import UserError
from vlagent.files import append_jsonl, iter_jsonl
from vlagent.train.ablate.config import AblateConfig
from vlagent.train.ablate.plan import (
    Job,
    command,
    digest_of,
    eval_words,
    job_folder,
    resume_words,
    rl_folder,
    train_words,
)
from vlagent.train.ablate.processes import Child, Ended
from vlagent.train.folder import last_step

Stage = Literal["rl", "eval"]
TRIES = 3
"""Of one stage in one call, where something kills its process."""
TRAINING = 0.85
"""Share of a run's time that is its training."""
TALLY_EVERY_S = 5.0
"""What a process has used is noted this often: who is killed with it loses no more."""


def used_s(lines: Sequence[dict[str, Any]], stage: Stage) -> float:
    """Processor seconds that the processes of a stage used, those too whose end nobody lived to note."""
    total = unfinished = 0.0
    for line in lines:
        if line["stage"] != stage:
            continue
        if "so_far_s" in line:
            unfinished = line["so_far_s"]
            continue
        total += line.get("core_s", unfinished)
        unfinished = 0.0
    return total + unfinished


@dataclass
class Work:
    """A job between its folders. SPENT holds lines of the start of a process, of its way and of its end."""

    config: AblateConfig
    job: Job
    child: Child | None = None
    stage: Stage | None = None
    tries: int = 0
    steps: int = 0
    """Of its training."""
    lines: list[dict[str, Any]] = field(default_factory=list)
    tallied: float = 0.0
    """When the running process was last noted."""

    def __post_init__(self) -> None:
        if self.spent.exists():
            self.lines = list(iter_jsonl(self.spent, ours=True))
        self._refuse_other_settings()

    def _refuse_other_settings(self) -> None:
        """What is left of a run is no part of another: it would be kept under settings that it never had."""
        now = digest_of(self.config, self.job)
        if any("stage" not in line or line.get("config", now) != now for line in self.lines):
            raise UserError(f"{self.folder}: was begun with other settings; remove it, or choose another run folder")

    @property
    def folder(self) -> Path:
        return job_folder(self.config, self.job)

    @property
    def spent(self) -> Path:
        return self.folder / "spent.jsonl"

    def next_stage(self) -> Stage | None:
        """What has not ended well yet; None where all has."""
        done = {line["stage"] for line in self.lines if line.get("code") == 0}
        stages: tuple[Stage, ...] = ("rl", "eval") if self.job.trains else ("eval",)
        return next((stage for stage in stages if stage not in done), None)

    def left_s(self) -> float:
        """Processor seconds that its training may still use."""
        return self.config.limits.core_minutes * 60 - used_s(self.lines, "rl")

    def start(self, stage: Stage) -> None:
        """Start the process of a stage, or go on where it was killed."""
        self.tries = self.tries + 1 if stage == self.stage else 1
        self.stage = stage
        self._note({"stage": stage, "started": True, "config": digest_of(self.config, self.job)})
        self.child = Child(command(self._words(stage)), self.log, self.left_s() if stage == "rl" else None)

    def _words(self, stage: Stage) -> list[str]:
        if stage == "eval":
            return eval_words(self.config, self.job)
        begun = (rl_folder(self.config, self.job) / "config.json").exists()
        return resume_words(self.config, self.job) if begun else train_words(self.config, self.job)

    @property
    def log(self) -> Path:
        """What its processes said."""
        return self.folder / "log.txt"

    def tally(self) -> None:
        """Note what its process has used so far, now and then."""
        if self.child and monotonic() - self.tallied > TALLY_EVERY_S:
            self.tallied = monotonic()
            self._note({"stage": str(self.stage), "so_far_s": round(self.child.core_s(), 2)})

    def ended(self, how: Ended) -> None:
        """Keep what a process used."""
        used = {"core_s": round(how.core_s, 2), "wall_s": round(how.wall_s, 2)}
        self._note({"stage": str(self.stage), "code": how.code, **used})
        self.child = None

    def _note(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        append_jsonl(self.spent, line)

    def step(self) -> int:
        """Steps that its training has done."""
        return last_step(rl_folder(self.config, self.job))

    def share(self) -> float:
        """How much of it is done, about."""
        if self.next_stage() == "rl":
            return TRAINING * min(1.0, self.step() / self.steps) if self.steps else 0.0
        return TRAINING if self.job.trains else 0.0
