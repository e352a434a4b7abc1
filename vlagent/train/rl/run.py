"""A run of reinforcement learning: episodes, rewards, advantages, optimizer steps, validation, checkpoints, export.

What a step holds is a function of the weights, the configuration and the step's number (keyed randomness), and a step's
episodes are recorded before its update: a run that is killed at any moment and resumed computes what it would have
computed.
"""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, reduce
from torch.optim.lr_scheduler import LambdaLR

from vlagent.errors import ServiceError, UserError
from vlagent.files import iter_jsonl, only_writer, write_json
from vlagent.model.load import Policy, load_policy
from vlagent.model.vision import speed_up_vision
from vlagent.randomness import seed_of
from vlagent.train.checkpoint import drop_leftovers, last_position, write_checkpoint
from vlagent.train.folder import METRICS, cut_metrics, new_name, refuse_full, start_folder
from vlagent.train.interrupt import Interrupt
from vlagent.train.parts import export, load_trainee, trainable
from vlagent.train.rl.checkpoint import RlPosition, drop_old_best, drop_old_rollouts, read_best, write_best
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.episodes import Episodes
from vlagent.train.rl.folder import RlSummary
from vlagent.train.rl.groups import TrainingSet, group_rows
from vlagent.train.rl.metrics import Costs, Update, step_metrics
from vlagent.train.rl.minibatch import Minibatch, make_minibatches
from vlagent.train.rl.progress import RlMeter
from vlagent.train.rl.rollout import Stopped
from vlagent.train.rl.trainer import Plan, PolicyTrainer, Taken
from vlagent.train.rl.watch import ALARMS, Watch, need_trackers
from vlagent.train.schedule import learning_rate
from vlagent.train.sft import make_optimizer, refuse_sharding
from vlagent.train.validate import Exam
from vlagent.types import Group


def train_rl(config: RlConfig, *, resume: bool = False) -> RlSummary:
    """Run, or with `resume` go on with, the run folder `config.run`. Ctrl-C ends it with a checkpoint.

    Started by several processes (`accelerate launch`, `torch.distributed.run`), they share every step. Raises
    `UserError` for what is wrong with configuration or data, before anything is trained; `ServiceError`, after a
    checkpoint, where services fail past what the configuration allows.
    """
    refuse_sharding()
    need_trackers(config.watch)
    state = PartialState(cpu=config.model.device == "cpu")
    names = [config.run or str(new_name("rl"))]
    broadcast_object_list(names)
    config = config.model_copy(update={"run": names[0]})
    with only_writer(Path(names[0])) if state.is_main_process else nullcontext():
        return _train_here(config, state, resume)


def _train_here(config: RlConfig, state: PartialState, resume: bool) -> RlSummary:
    """In a folder that is ours. It is claimed last: a mistake leaves it free."""
    folder, first = Path(str(config.run)), state.is_main_process and not resume
    if first:
        refuse_full(folder)
    run = RlRun(config, state)
    try:
        if first:
            start_folder(folder, config)
        state.wait_for_everyone()
        if resume:
            run.restore()
        return run.train()
    finally:
        run.close()


class RlRun:
    """One run: its model, its episodes, and where it is. The trainer's `Feed`."""

    def __init__(self, config: RlConfig, state: PartialState) -> None:
        self.config, self.run, self.state = config, Path(str(config.run)), state
        self.policy: Policy = load_trainee(config.model, str(state.device), config.seed)
        self.optimizer = make_optimizer(self.policy.model, config.optim)
        self.interrupt = Interrupt()
        self.episodes = Episodes(config, self.run, self.policy, lambda: self.interrupt.asked)
        checks = config.validation
        self.exam = Exam(checks, config.seed) if checks else None
        self.position = RlPosition(rows_digest=self.episodes.digest)
        self.watch: Watch | None = None
        self.meter: RlMeter
        self._groups: list[Group] = []
        self._dropped: list[Group] = []
        self._training: TrainingSet
        self._taken: list[Taken] = []
        self._clock = Clock()
        self._last: dict[str, float] = {}

    def restore(self) -> None:
        """Go to the last whole checkpoint, or to the start where there is none."""
        if self.state.is_main_process:
            drop_leftovers(self.run)
        found = last_position(self.run, self.policy.model, self.optimizer, self.position, "questions")
        self.position = found or self.position
        if self.state.is_main_process:
            for name in (METRICS, ALARMS):
                cut_metrics(self.run, self.position.step if found else -1, name)
        self.state.wait_for_everyone()

    def train(self) -> RlSummary:
        """Every step that is left, then the export."""
        main, start = self.state.is_main_process, self.position.step
        if main:
            self.watch = Watch(self.run, self.config.watch, self.config.model_dump(mode="json"))
        with self.interrupt, RlMeter(self.config.steps, start, silent=not main) as self.meter:
            self.meter.say(self._describe())
            try:
                self._train()
            except Stopped:
                self._save()
            except ServiceError:
                if not 0 < len(self._taken) < self.config.batch.minibatches:  # weights of a half step are no checkpoint
                    self._save()
                raise
        return self._finish() if self._is_whole() else self._summary("stopped")

    def _is_whole(self) -> bool:
        """Whether nothing is left: every step is done, and none of their validations was interrupted."""
        if self.position.step < self.config.steps:
            return False
        owed = not self.config.debug.rollout_only and self._lacks_validation()
        return not (self._anyone(self.interrupt.asked) and owed)

    def _train(self) -> None:
        if self._lacks_validation():
            self._validate()
            if self._anyone(self.interrupt.asked):
                raise Stopped("the validation was stopped")
            if self.position.step:
                self._save()
        if self.config.debug.rollout_only:
            self._only_play()
        elif self.position.step < self.config.steps:
            plan = Plan(self.position.step, self.config.steps, self.config.batch.minibatches)
            trainer = PolicyTrainer(self.config, self.policy, (self.optimizer, self._schedule(plan)), self, plan)
            trainer.reference = self._reference()
            trainer.train()

    def minibatches(self, step: int) -> list[Minibatch]:
        """A step's episodes as rows with advantages: played or read, and recorded before they are trained on."""
        self._clock = Clock()
        torch.manual_seed(seed_of(self.config.seed, "step", step, self.state.process_index) % 2**63)
        self.meter.doing(f"step {step + 1}: episodes")
        found = self.episodes.groups(step)
        self._groups, self._dropped = found.groups, found.dropped
        self._clock.mark("rollout")
        processor, agent = self.policy.processor, self.config.rollout.agent
        self._training = group_rows(self._groups, processor.renderer, self.config.masking, agent)
        made = make_minibatches(self._training, len(self._groups), self.config)
        self._clock.mark("rows")
        self._taken = []
        return made

    def taken(self, number: int, result: Taken) -> bool:
        """After each optimizer step; after the last of a step: record, validate, save. False ends the training."""
        self._taken.append(result)
        if number + 1 < self.config.batch.minibatches:
            return True
        self._clock.mark("update")
        self._record()
        last = self.position.step == self.config.steps
        if self._is_due():
            self._validate()
        stop = self._anyone(self.interrupt.asked)
        if stop or last or self.position.step % self.config.save.every == 0:
            self._save()
        return not stop

    def close(self) -> None:
        """Release what is open."""
        self.episodes.close()
        if self.watch is not None:
            self.watch.close()

    def _describe(self) -> str:
        count, batch = sum(weight.numel() for weight in trainable(self.policy.model).values()), self.config.batch
        return (
            f"{self.episodes.describe()}, {self.config.steps} steps of {batch.prompts} x {batch.samples} episodes, "
            f"{count:,} weights trained, {self.state.num_processes} process(es) on {self.state.device}"
        )

    def _schedule(self, plan: Plan) -> LambdaLR:
        """The learning rate as a function of the optimizer steps that were taken since the run began."""
        optim, first = self.config.optim, plan.first * plan.minibatches
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = optim.lr
        total = self.config.steps * plan.minibatches
        return LambdaLR(self.optimizer, lambda done: learning_rate(optim, first + done, total) / optim.lr)

    def _reference(self) -> Any:
        """The model before training where the KL term wants one; adapters are switched off instead."""
        if self.config.algorithm.beta == 0 or self.config.model.lora is not None:
            return None
        model = self.config.model
        device = str(self.state.device)
        reference = load_policy(Path(model.path), device=device, dtype=model.dtype, attention=model.attention).model
        if device == "cpu":
            speed_up_vision(reference)
        return reference.requires_grad_(False)

    def _only_play(self) -> None:
        """Episodes without updates; a step that is recorded already is read."""
        for step in range(self.position.step, self.config.steps):
            made = self.minibatches(step)
            self._taken = [Taken(one, {}, 0.0, 0.0, 0.0) for one in made]
            self._record()

    def _record(self) -> None:
        """The numbers of the step that has just ended."""
        updates = [_update(one) for one in self._taken]
        groups = [*self._groups, *self._dropped]
        place = self.position
        self.position = place.model_copy(
            update={
                "step": place.step + 1,
                "seen_rows": place.seen_rows + len(self._training.rows),
                "seen_tokens": place.seen_tokens + sum(len(row.ids) for row in self._training.rows),
                "skipped": place.skipped + sum(one.skipped for one in self._taken),
                "episodes": place.episodes + sum(len(group.trajectories) for group in groups),
            }
        )
        values = step_metrics(groups, self._training.left_out, updates, self._costs(), self._more())
        self._last = values
        alarms = self.watch.log(self.position.step, values) if self.watch else []
        self.meter.step(self.position.step, values)
        for alarm in alarms:
            self.meter.say(f"ALARM at step {alarm.step}: {alarm.message}")

    def _costs(self) -> Costs:
        """Seconds of the step and its parts; those of model, tools, reward are summed over episodes that overlap."""
        spent, times = self._clock.seconds, self.episodes.times()
        trained = [one.minibatch for one in self._taken]
        groups = [*self._groups, *self._dropped]
        sampled = sum(played.usage.completion_tokens for group in groups for played in group.trajectories)
        passed = sum(len(minibatch.rows[i].ids) for minibatch in trained for i in minibatch.passing)
        return Costs({"step": sum(spent.values())} | spent | times, sampled, passed)

    def _more(self) -> dict[str, float]:
        """Of the optimizer, a mean over the step's minibatches; nothing where none was taken."""
        taken = [one for one in self._taken if not one.skipped]
        if not taken or self.config.debug.rollout_only:
            return {}
        found = {name: sum(getattr(one, name) for one in taken) / len(taken) for name in ("loss", "grad_norm")}
        for name, value in found.items():  # weights after such a step are worth no checkpoint
            if not math.isfinite(value):
                where = f"step {self.position.step}: {name} is {value}"
                raise UserError(f"{where}; start with a lower optim.lr, or look at the episodes")
        return {**found, "lr": taken[-1].lr}

    def _is_due(self) -> bool:
        """Whether this is a moment to validate."""
        checks, step = self.config.validation, self.position.step
        if checks is None:
            return False
        return checks.first if step == 0 else step == self.config.steps or step % checks.every == 0

    def _lacks_validation(self) -> bool:
        """Whether it should have been validated here and was not: at the start, or since it was interrupted."""
        file = self.run / METRICS
        lines = iter_jsonl(file, ours=True) if file.exists() else ()
        here = (line for line in lines if line["step"] == self.position.step)
        return self._is_due() and not any("validation/success" in line for line in here)

    def _validate(self) -> None:
        """Success on held-out questions; the best weights are kept."""
        assert self.exam is not None
        world, rank, step = self.state.num_processes, self.state.process_index, self.position.step
        name = f"step-{step:06d}" + (f"-{rank + 1}-of-{world}" if world > 1 else "")
        self.meter.doing(f"step {step}: validation")
        counts = self.episodes.examine(self.exam, self.run / "validation" / name, lambda: self.interrupt.asked)
        right, scored = reduce(torch.tensor(counts, device=self.state.device), "sum").tolist()
        if self._anyone(self.interrupt.asked) or not scored:
            return
        success, best = right / scored, self.position.best_success
        better = best is None or success > best
        found = {"last_success": success} | ({"best_success": success, "best_step": step} if better else {})
        self.position = self.position.model_copy(update=found)
        if self.state.is_main_process and better:
            write_best(self.run, self.policy.model, step)
        if self.watch is not None:
            self.watch.note(step, {"validation/success": success, "validation/scored": scored})
        self.meter.say(f"step {step}: success {success:.3f} on {scored} questions{', the best so far' * better}")

    def _save(self) -> None:
        """Write a checkpoint where there is none of this moment; all processes wait for it."""
        keep = self.config.save
        if self.state.is_main_process:
            write_checkpoint(self.run, self.policy.model, self.optimizer, self.position, keep.keep)
            drop_old_best(self.run)
            drop_old_rollouts(self.run, self.position.step, keep.rollouts)
        self.state.wait_for_everyone()

    def _anyone(self, asked: bool) -> bool:
        if self.state.num_processes == 1:
            return asked
        return bool(reduce(torch.tensor(int(asked), device=self.state.device), "sum") > 0)

    def _finish(self) -> RlSummary:
        """Export the weights that did best in validation, else the last ones; beside them the last, if others."""
        best = self.position.best_step
        if self.state.is_main_process and not self.config.debug.rollout_only:
            if best is not None and best != self.position.step:
                self._export("last")
                read_best(self.run, self.policy.model, best)
            self._export("model")
        self.state.wait_for_everyone()
        return self._summary("complete")

    def _export(self, name: str) -> None:
        model = self.config.model
        export(self.policy, self.run / name, model.export_dtype, Path(model.path))

    def _summary(self, ended: str) -> RlSummary:
        place, whole = self.position, ended == "complete" and not self.config.debug.rollout_only
        summary = RlSummary(
            run=str(self.run),
            ended=ended,
            steps=place.step,
            total_steps=self.config.steps,
            episodes=place.episodes,
            skipped=place.skipped,
            reward=self._last.get("reward/mean"),
            success=place.last_success,
            best_success=place.best_success,
            best_step=place.best_step,
            model=str(self.run / "model") if whole else None,
        )
        if self.state.is_main_process:
            write_json(self.run / "summary.json", summary)
        return summary


def _update(taken: Taken) -> Update:
    return Update(taken.minibatch.advantages, taken.stats, len(taken.minibatch.rows), taken.skipped)


class Clock:
    """Seconds of the parts of a step, each from the end of the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._at = time.perf_counter()

    def mark(self, part: str) -> None:
        """The end of a part."""
        now = time.perf_counter()
        self.seconds[part], self._at = now - self._at, now
