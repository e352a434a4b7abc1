"""Supervised fine-tuning: the cold start of SenseNova-MARS (arXiv 2512.24330, section 3.2), for any supported model.

One loop on transformers and accelerate. Order, dropout and learning rate are functions of (seed, step), so a run that
is killed at any moment and resumed computes what it would have computed.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs, broadcast_object_list

from vlagent.errors import UserError
from vlagent.files import only_writer, write_json
from vlagent.model.load import Policy
from vlagent.randomness import seed_of
from vlagent.train.adamw import CompensatedAdamW
from vlagent.train.batch import Mixture, Share, epoch_steps, prefetch, shares
from vlagent.train.checkpoint import Position, drop_leftovers, last_position, write_checkpoint
from vlagent.train.config import ModelConfig, OptimConfig, SftConfig, SourceConfig
from vlagent.train.folder import (
    SftSummary,
    cut_metrics,
    last_values,
    new_name,
    record_metrics,
    refuse_full,
    start_folder,
)
from vlagent.train.interrupt import Interrupt
from vlagent.train.loss import own_weight, weighted_nll
from vlagent.train.parts import export, load_trainee, trainable
from vlagent.train.progress import Meter
from vlagent.train.rows import Rows, read_rows
from vlagent.train.schedule import learning_rate
from vlagent.train.validate import Exam, evaluating
from vlagent.types import TrainRow


def train_sft(config: SftConfig, *, resume: bool = False) -> SftSummary:
    """Run, or with `resume` go on with, the run folder `config.run`. Ctrl-C ends it with a checkpoint.

    Started by several processes (`accelerate launch`, `torch.distributed.run`), they share every step. Raises
    `UserError` for what is wrong with the configuration or the data, before anything is trained.
    """
    accelerator = make_accelerator(config.model)
    run = Path(_agreed_name(config))
    with only_writer(run) if accelerator.is_main_process else nullcontext():
        if accelerator.is_main_process and not resume:
            refuse_full(run)
        trainer = SftTrainer(config, run, accelerator)
        if accelerator.is_main_process and not resume:
            start_folder(run, config)  # only now: a mistake above leaves the folder free
        accelerator.wait_for_everyone()
        if resume:
            trainer.restore()
        return trainer.train()


def make_accelerator(config: ModelConfig) -> Accelerator:
    """Processes, device and precision. A part that sees no picture in some pass has weights without a gradient."""
    refuse_sharding()
    options = DistributedDataParallelKwargs(
        find_unused_parameters="vision" not in config.freeze, gradient_as_bucket_view=True
    )
    return Accelerator(mixed_precision=config.mixed_precision, cpu=config.device == "cpu", kwargs_handlers=[options])


def refuse_sharding() -> None:
    """`UserError` where `accelerate launch` was told to shard the weights."""
    for name in ("FSDP", "DEEPSPEED", "MEGATRON_LM"):
        if os.environ.get(f"ACCELERATE_USE_{name}", "").lower() in ("true", "1"):
            raise UserError(f"{name}: sharded weights are not supported; launch without it")


def make_optimizer(model: torch.nn.Module, config: OptimConfig) -> torch.optim.Optimizer:
    """AdamW over what is trained; only matrices decay. Fused on a GPU: no copies of the weights while it steps."""
    weights = list(trainable(model).values())
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    used = [group for group in groups if group["params"]]
    if any(weight.dtype != torch.float32 for weight in weights):
        return CompensatedAdamW(used, lr=config.lr, betas=config.betas, eps=config.eps)
    fused = weights[0].device.type == "cuda" or None
    return torch.optim.AdamW(used, lr=config.lr, betas=config.betas, eps=config.eps, fused=fused)


class SftTrainer:
    """One run: its rows, its model, and where it is."""

    def __init__(self, config: SftConfig, run: Path, accelerator: Accelerator) -> None:
        self.config, self.run, self.accelerator = config, run, accelerator
        self.policy: Policy = load_trainee(config.model, str(accelerator.device), config.seed)
        self.banned = self.policy.processor.vocabulary.banned
        found = self._read(config.sources)
        self.rows = [row for part in found for row in part.rows]
        self.left_out = sum((part.left_out for part in found), Counter[str]())
        self.lengths = [len(row.ids) for row in self.rows]
        self.mixture = Mixture(tuple(len(part.rows) for part in found), tuple(s.share for s in config.sources))
        self.steps_per_epoch = -(-self.mixture.epoch_rows // config.batch.rows)
        self.total = min(config.max_steps or 2**62, config.epochs * self.steps_per_epoch)
        checks = config.validation
        self.held_out = [row for part in self._read(checks.sources) for row in part.rows] if checks else []
        self.exam = Exam(checks, config.seed) if checks and checks.data else None
        optimizer = make_optimizer(self.policy.model, config.optim)
        self.model, self.optimizer = accelerator.prepare(self.policy.model, optimizer)
        self.position = Position(rows_digest=digest_of(self.rows))
        self.last: dict[str, Any] = {}
        self._epoch = lru_cache(maxsize=1)(self._plan_epoch)

    def _read(self, sources: Sequence[SourceConfig]) -> list[Rows]:
        processor = self.policy.processor
        longest = self.config.batch.max_tokens
        return [read_rows(source, processor.renderer, processor.limits, longest) for source in sources]

    def _plan_epoch(self, epoch: int) -> list[list[int]]:
        order = self.mixture.order(self.config.seed, epoch)
        return epoch_steps(order, self.lengths, self.config.batch, seed_of(self.config.seed, epoch))

    def restore(self) -> None:
        """Go to the last whole checkpoint, or to the start where there is none."""
        if self.accelerator.is_main_process:
            drop_leftovers(self.run)
        found = last_position(self.run, self.policy.model, self.optimizer, self.position, "rows")
        self.position = found or self.position
        if self.accelerator.is_main_process:
            cut_metrics(self.run, self.position.step)
        self.accelerator.wait_for_everyone()
        self.last = last_values(self.run)

    def train(self) -> SftSummary:
        """Every step that is left, then the export."""
        silent = not self.accelerator.is_main_process
        with Interrupt() as interrupt, Meter(self.total, self.position.step, silent=silent) as meter:
            meter.say(self.describe())
            whole = not self._lacks_validation() or self.validate(meter, interrupt)
            while whole and self.position.step < self.total:
                self.step(meter)
                last = self.position.step == self.total
                whole = not self._validates_here() or self.validate(meter, interrupt)
                stop = self._anyone(interrupt.asked)
                if stop or last or self._is_due("save"):
                    self.save()
                if stop and not last:
                    return self._summary("stopped")
        return self._finish() if whole else self._summary("stopped")

    def _validates_here(self) -> bool:
        last = self.position.step == self.total
        return self._is_due("validation") or (last and self.config.validation is not None)

    def _lacks_validation(self) -> bool:
        """Whether this step should have been validated and was not, since that was interrupted."""
        if not self.position.step or not self._validates_here():
            return False
        names = {"validation_loss"} if self.held_out else {"success"}
        return not names & last_values(self.run, self.position.step).keys()

    def describe(self) -> str:
        """One line about what is trained."""
        count = sum(weight.numel() for weight in trainable(self.policy.model).values())
        return (
            f"{len(self.rows)} rows ({sum(self.left_out.values())} episodes left out), {self.total} steps, "
            f"{count:,} weights trained, {self.accelerator.num_processes} process(es) on {self.accelerator.device}"
        )

    def step(self, meter: Meter) -> None:
        """One optimizer step over all processes."""
        started, step = time.perf_counter(), self.position.step
        chosen = self._epoch(step // self.steps_per_epoch)[step % self.steps_per_epoch]
        torch.manual_seed(seed_of(self.config.seed, "step", step, self.accelerator.process_index) % 2**63)
        loss = self._gradients(chosen)
        norm = float(self.accelerator.clip_grad_norm_(trainable(self.model).values(), self.config.optim.clip))
        self._refuse_no_number(loss, norm if self.accelerator.scaler is None else 0.0)  # a scaler skips such steps
        rate = learning_rate(self.config.optim, step, self.total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        rows = [self.rows[i] for i in chosen]
        self._record(rows, {"loss": loss, "lr": rate, "grad_norm": norm}, time.perf_counter() - started, meter)

    def _refuse_no_number(self, loss: float, norm: float) -> None:
        """Before the weights are touched: a checkpoint must never hold what is no number."""
        for what, value in (("loss", loss), ("norm of the gradient", norm)):
            if not math.isfinite(value):
                step = self.position.step + 1
                raise UserError(f"step {step}: the {what} is {value}; lower optim.lr, or look at the rows")

    def _gradients(self, chosen: Sequence[int]) -> float:
        """Gradients of the mean over the step's own tokens, averaged by DDP; the loss over all processes."""
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        work = shares(chosen, self.lengths, self.config.batch, world, rank)
        total = own_weight([self.rows[i] for i in chosen])
        seen = torch.zeros((), device=self.accelerator.device)
        for number, micro in enumerate(prefetch(self.rows, work, self.policy.processor), 1):
            apart = number < len(work)
            with self.accelerator.no_sync(self.model) if apart else nullcontext():
                batch = micro.batch.to(self.accelerator.device)
                loss = weighted_nll(self.model, batch, micro.weights, self.banned) / total
                self.accelerator.backward(loss * world)
            seen += loss.detach()
        return float(self.accelerator.reduce(seen, "sum"))

    def _record(self, rows: Sequence[TrainRow], values: dict[str, Any], seconds: float, meter: Meter) -> None:
        tokens = sum(len(row.ids) for row in rows)
        self.position = self.position.model_copy(
            update={
                "step": self.position.step + 1,
                "seen_rows": self.position.seen_rows + len(rows),
                "seen_tokens": self.position.seen_tokens + tokens,
            }
        )
        counts = {"rows": len(rows), "tokens": tokens, "own_tokens": int(sum(row.mask.sum() for row in rows))}
        speed = {"rows_per_s": round(len(rows) / seconds, 2), "tokens_per_s": round(tokens / seconds, 1)}
        place = {"step": self.position.step, "epoch": round(self.position.step / self.steps_per_epoch, 4)}
        self.last |= values
        if self.accelerator.is_main_process:
            record_metrics(self.run, place | values | counts | speed)
        meter.step(self.position.step, values | speed)

    def validate(self, meter: Meter, interrupt: Interrupt) -> bool:
        """Loss on held-out rows, success in free running. False where it was interrupted: then nothing is measured."""
        values: dict[str, Any] = {"step": self.position.step}
        if self.held_out:
            values["validation_loss"] = self._held_out_loss()
        if self.exam is not None:
            right, scored = self._success(self.exam, interrupt)
            values |= {"success": right / scored if scored else None, "success_scored": scored}
            if self._anyone(interrupt.asked):
                return False
        self.last |= {name: value for name, value in values.items() if name != "step"}
        if self.accelerator.is_main_process:
            record_metrics(self.run, values)
        meter.say("  ".join(f"{k} {v:.4f}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items()))
        return True

    def _held_out_loss(self) -> float:
        rows, world = self.held_out, self.accelerator.num_processes
        lengths = [len(row.ids) for row in rows]
        work: list[Share] = shares(range(len(rows)), lengths, self.config.batch, world, self.accelerator.process_index)
        seen = torch.zeros((), device=self.accelerator.device)
        with evaluating(self.model):
            for micro in prefetch(rows, work, self.policy.processor):
                batch = micro.batch.to(self.accelerator.device)
                seen += weighted_nll(self.model, batch, micro.weights, self.banned)
        return float(self.accelerator.reduce(seen, "sum")) / own_weight(rows)

    def _success(self, exam: Exam, interrupt: Interrupt) -> tuple[int, int]:
        world, rank = self.accelerator.num_processes, self.accelerator.process_index
        name = f"step-{self.position.step:06d}" + (f"-{rank + 1}-of-{world}" if world > 1 else "")
        counts = exam.sit(self.policy, self.run / "validation" / name, rank, world, lambda: interrupt.asked)
        summed = self.accelerator.reduce(torch.tensor(counts, device=self.accelerator.device), "sum").tolist()
        return int(summed[0]), int(summed[1])

    def save(self) -> None:
        """Write a checkpoint; all processes wait for it."""
        if self.accelerator.is_main_process:
            write_checkpoint(self.run, self.policy.model, self.optimizer, self.position, self.config.save.keep)
        self.accelerator.wait_for_everyone()

    def _is_due(self, what: str) -> bool:
        table = self.config.save if what == "save" else self.config.validation
        return table is not None and self.position.step % table.every == 0

    def _anyone(self, asked: bool) -> bool:
        if self.accelerator.num_processes == 1:
            return asked
        flag = torch.tensor(int(asked), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag, "sum") > 0)

    def _finish(self) -> SftSummary:
        if self.accelerator.is_main_process:
            export(self.policy, self.run / "model", self.config.model.export_dtype, Path(self.config.model.path))
        self.accelerator.wait_for_everyone()
        return self._summary("complete")

    def _summary(self, ended: str) -> SftSummary:
        summary = SftSummary(
            run=str(self.run),
            ended=ended,
            steps=self.position.step,
            total_steps=self.total,
            epochs=self.position.step / self.steps_per_epoch,
            rows=self.position.seen_rows,
            tokens=self.position.seen_tokens,
            loss=self.last.get("loss"),
            validation_loss=self.last.get("validation_loss"),
            success=self.last.get("success"),
            success_scored=self.last.get("success_scored") or 0,
            left_out=dict(self.left_out),
            model=str(self.run / "model") if ended == "complete" else None,
        )
        if self.accelerator.is_main_process:
            write_json(self.run / "summary.json", summary)
        return summary


def digest_of(rows: Sequence[TrainRow]) -> str:
    """Of ids and masks, in order."""
    digest = hashlib.blake2b(digest_size=8)
    for row in rows:
        digest.update(row.ids.tobytes())
        digest.update(row.mask.tobytes())
    return digest.hexdigest()


def _agreed_name(config: SftConfig) -> str:
    """The run folder, the same in all processes."""
    names = [config.run or str(new_name())]
    broadcast_object_list(names)
    return names[0]
