"""One stage from its first step, or from where it was stopped, to its last.

    FOLDER/state.pt        weights, optimiser and step; replaced in one piece
    FOLDER/early.pt        the weights of one step on the way
    FOLDER/metrics.jsonl   a line now and then

Every draw of a step is keyed by its number, so a run that was killed ends with the weights of one that was not.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vlagent.errors import UserError
from vlagent.files import iter_jsonl, write_atomic
from vlagent.train.muon import MatrixAndRest

Report = Callable[[str], None]


class Trainer(Protocol):
    """A stage: what it trains and what a step's loss is."""

    name: str
    model: Any
    optimiser: MatrixAndRest

    @property
    def steps(self) -> int:
        """At most; may become less on the way."""
        ...

    @property
    def planned(self) -> int:
        """At most, by the configuration."""
        ...

    def rate(self, step: int) -> float: ...
    def after(self, step: int) -> None: ...
    def keeps(self, step: int) -> bool:
        """Whether the weights after this step are kept apart."""
        ...

    def losses(self, step: int) -> dict[str, Tensor]: ...
    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def metrics(self) -> dict[str, float]: ...
    def state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


class Pace:
    """How often a run says something and saves."""

    def __init__(self, checkpoint_s: float, log_s: float) -> None:
        self.checkpoint_s, self.log_s = checkpoint_s, log_s


class StageRun:
    """Runs a trainer in `folder`."""

    def __init__(self, trainer: Trainer, folder: Path, pace: Pace, say: Report) -> None:
        self.trainer, self.folder, self.pace, self.say = trainer, folder, pace, say
        self.step = 0
        self.core_s = 0.0
        """CPU seconds that all steps so far took."""
        folder.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        """Train to the end."""
        self._restore()
        started, saved, told, first = time.monotonic(), time.monotonic(), time.monotonic(), self.step
        cpu = time.process_time()
        while self.step < self.trainer.steps:
            parts = self._advance()
            now = time.monotonic()
            self.core_s, cpu = self.core_s + time.process_time() - cpu, time.process_time()
            if now - told > self.pace.log_s or self.step == self.trainer.steps:
                told = now
                self._tell(parts, (now - started) / (self.step - first))
            if now - saved > self.pace.checkpoint_s or self.step == self.trainer.steps:
                saved = now
                self._save()

    def _advance(self) -> dict[str, float]:
        trainer = self.trainer
        parts = trainer.losses(self.step)
        total = torch.stack(list(parts.values())).sum()
        if not bool(torch.isfinite(total)):
            raise RuntimeError(f"{trainer.name}: the loss of step {self.step} is {float(total.detach())}")
        total.backward()  # type: ignore[no-untyped-call]
        average_gradients(weight for _, weight in trainer.named_parameters())
        trainer.optimiser.step(trainer.rate(self.step))
        trainer.after(self.step)
        if trainer.keeps(self.step) and rank() == 0:
            save_whole({"model": trainer.model.state_dict()}, self.folder / "early.pt")
        self.step += 1
        return {name: round(float(value.detach()), 4) for name, value in parts.items()}

    def _tell(self, parts: dict[str, float], step_s: float) -> None:
        if rank() != 0:
            return
        self.trainer.model.eval()
        line = {"step": self.step, "of": self.trainer.steps, "core_s": round(self.core_s, 1)} | parts
        line |= {f"held_{name}": value for name, value in self.trainer.metrics().items()}
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        left = step_s * (self.trainer.steps - self.step)
        shown = " ".join(f"{name} {value:g}" for name, value in line.items() if name not in ("step", "of"))
        self.say(f"{self.trainer.name} {self.step}/{self.trainer.steps} ({left / 60:.1f} min left) {shown}")

    def _save(self) -> None:
        if rank() != 0:
            return
        state = {
            "step": self.step,
            "planned": self.trainer.planned,
            "core_s": self.core_s,
            "model": self.trainer.model.state_dict(),
            "optimiser": self.trainer.optimiser.state_dict(),
            "own": self.trainer.state(),
        }
        save_whole(state, self.folder / "state.pt")

    def _restore(self) -> None:
        path = self.folder / "state.pt"
        if not path.exists():
            (self.folder / "metrics.jsonl").unlink(missing_ok=True)
            return
        state = torch.load(path, weights_only=True)
        if state["planned"] != self.trainer.planned:
            made, now = state["planned"], self.trainer.planned
            raise UserError(f"{path}: made with steps = {made}, now {now}; take another folder")
        self.step, self.core_s = state["step"], state["core_s"]
        self.trainer.model.load_state_dict(state["model"])
        self.trainer.optimiser.load_state_dict(state["optimiser"])
        self.trainer.restore(state["own"])
        if rank() == 0:
            self._forget_later_lines()

    def _forget_later_lines(self) -> None:
        """What was said after the last save will be said again."""
        path = self.folder / "metrics.jsonl"
        if path.exists():
            kept = [line for line in iter_jsonl(path) if line["step"] <= self.step]
            write_atomic(path, "".join(json.dumps(line) + "\n" for line in kept))


def rank() -> int:
    """Of this process among those that share the steps."""
    on = torch.distributed.is_available() and torch.distributed.is_initialized()
    return int(torch.distributed.get_rank()) if on else 0


def average_gradients(weights: Iterator[nn.Parameter]) -> None:
    """Replace gradients by their mean over the processes, if there are several. All must train the same ones."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return
    gradients = [w.grad for w in weights if w.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    torch.distributed.all_reduce(flat)
    flat /= torch.distributed.get_world_size()
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def save_whole(state: dict[str, Any], path: Path) -> None:
    """Write a file that is either the old or the new one, whatever happens."""
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
