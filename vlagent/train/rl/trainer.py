"""TRL's GRPO trainer, fed with finished batches and with the loss of `algorithms.objective`.

Two overrides hold the product: `_generate_and_score_completions` takes a step's minibatches from a `Feed` (episodes,
rewards and advantages are made there), `_compute_loss` is our objective. The other overrides keep TRL from what costs
more than it gives: `_prepare_inputs` and `training_step`, since TRL pads a whole rollout batch to its longest row and
cuts it into equal parts, where ours are cut by length and normalised by global totals; the data loader, since what a
step holds is a function of its number; and the log. What stays TRL's and transformers': processes and the wrapped
model, gradient clipping, mixed precision, the loop over optimizer steps.
Shape letters: B = rows of a pass, L = padded length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from accelerate.utils import gather_object
from torch import Tensor

from vlagent.model.load import Policy
from vlagent.model.logprobs import token_logprobs, token_logprobs_entropy
from vlagent.train.batch import Share, ahead
from vlagent.train.parts import plain
from vlagent.train.rl.algorithms.objective import Scores, objective
from vlagent.train.rl.algorithms.stats import Stats, summary
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.minibatch import Minibatch, Pass, make_pass, work_of
from vlagent.train.rl.trl_contract import base_trainer, trainer_arguments


@dataclass(frozen=True)
class Taken:
    """One optimizer step that was taken, or skipped."""

    minibatch: Minibatch
    stats: dict[str, float]
    """Of the objective, over all passes and processes."""
    loss: float
    grad_norm: float
    lr: float

    @property
    def skipped(self) -> bool:
        return self.minibatch.skipped


class Feed(Protocol):
    """Where batches come from and results go to."""

    def minibatches(self, step: int) -> list[Minibatch]:
        """Of one step, the same in every process."""
        ...

    def taken(self, number: int, result: Taken) -> bool:
        """Told of every optimizer step; False ends the training."""
        ...


@dataclass(frozen=True)
class Plan:
    """The optimizer steps that are left: (step, number of the minibatch)."""

    first: int
    steps: int
    minibatches: int

    @property
    def updates(self) -> int:
        return (self.steps - self.first) * self.minibatches

    def __len__(self) -> int:
        return self.updates

    def __iter__(self) -> Iterator[dict[str, int]]:
        for step in range(self.first, self.steps):
            for number in range(self.minibatches):
                yield {"step": step, "number": number}


def no_reward(**_: Any) -> list[float]:
    """TRL wants a reward function; rewards are the feed's."""
    raise AssertionError("TRL must not compute rewards")


class PolicyTrainer(base_trainer()):  # type: ignore[misc]
    """The optimizer steps of a run."""

    def __init__(self, config: RlConfig, policy: Policy, parts: tuple[Any, Any], feed: Feed, plan: Plan) -> None:
        """`parts` are the optimizer and its schedule; `plan` is what is left to do."""
        from datasets import Dataset

        arguments = trainer_arguments(config.model, Path(str(config.run)), plan.updates, config.optim.clip, config.seed)
        super().__init__(
            model=policy.model,
            reward_funcs=no_reward,
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": [""]}),
            processing_class=policy.processor.hf,
            optimizers=parts,
        )
        plain(self.model).__dict__.pop("forward", None)  # TRL's fused head: its log-probabilities are not the sampler's
        self.config, self.policy, self.feed, self.plan = config, policy, feed, plan
        self.reference: Any = None
        """The model before training, prepared; None where the adapters are switched off instead, or beta is 0."""
        self._banned = policy.processor.vocabulary.banned
        self._temperature = config.rollout.agent.sampling.temperature
        self._minibatches: list[Minibatch] = []
        self._old: dict[tuple[int, int], Tensor] = {}
        """Log-probabilities before the step, by minibatch and pass; empty where the sampler's are used."""
        self._here: tuple[int, int] = (0, 0)
        """Step and number of the minibatch in work."""
        self._stats: list[Stats] = []
        self._loss = 0.0

    def get_train_dataloader(self) -> Plan:
        """Numbers of steps and minibatches; episodes are made when their turn comes."""
        return self.plan

    def _generate_and_score_completions(self, inputs: dict[str, int]) -> list[Minibatch]:
        """The finished minibatches of a step."""
        return self.feed.minibatches(inputs["step"])

    def _prepare_inputs(self, generation_batch: dict[str, int]) -> Minibatch:
        self._here = (generation_batch["step"], generation_batch["number"])
        if generation_batch["number"] == 0:
            self._minibatches = self._generate_and_score_completions(generation_batch)
            self._old = self._score_before() if self._wants_old() else {}
        return self._minibatches[generation_batch["number"]]

    def training_step(self, model: Any, inputs: dict[str, int], num_items_in_batch: Any = None) -> Tensor:  # noqa: ARG002
        """Gradients of one minibatch: pass by pass, summed over passes and processes."""
        minibatch = self._prepare_inputs(inputs)
        loss, self._stats = torch.zeros((), device=self.accelerator.device), []
        model.train()
        work = [] if minibatch.skipped else self._work(minibatch)
        for number, part in enumerate(self._passes(minibatch, work)):
            apart = number < len(work) - 1
            with self.accelerator.no_sync(model) if apart else nullcontext():
                with self.compute_loss_context_manager():
                    share = self.compute_loss(model, (number, part))
                self.accelerator.backward(share * self.accelerator.num_processes)  # DDP takes the mean over processes
            loss += share.detach()
        self._loss = float(self.accelerator.reduce(loss, "sum"))
        return loss

    def _compute_loss(self, model: Any, inputs: tuple[int, Pass]) -> Tensor:
        """Our objective's part of one forward pass; passes and processes add up to the minibatch's."""
        (number, part), algorithm = inputs, self.config.algorithm
        minibatch = self._minibatches[self._here[1]]
        new, entropy = token_logprobs_entropy(
            model, part.batch, self._banned, self._temperature, gradient=algorithm.entropy > 0
        )
        scores = Scores(
            new=new,
            mask=part.counted,
            old=self._old.get((self._here[1], number), None if self._one_pass_is_old() else part.sampler),
            ref=self._reference(part) if algorithm.beta > 0 else None,
            sampler=part.sampler,
            entropy=entropy,
        )
        found = objective(scores, part.advantages, algorithm, minibatch.totals)
        self._stats.append(found.stats)
        return found.loss * minibatch.scale(algorithm.aggregation)

    def log(self, logs: dict[str, Any], start_time: float | None = None) -> None:  # noqa: ARG002
        """Called after every optimizer step; tells the feed, which may want an end."""
        if "grad_norm" not in logs:
            return
        number = self._here[1]
        minibatch = self._minibatches[number]
        stats = {} if minibatch.skipped else summary(gather_object(self._stats))
        if not self._old and any(not earlier.skipped for earlier in self._minibatches[:number]):
            # the weights have moved since the episodes were sampled: this is no longer the engines' disagreement
            stats = {name: value for name, value in stats.items() if not name.startswith("mismatch/")}
        result = Taken(minibatch, stats, self._loss, float(logs["grad_norm"]), float(logs["learning_rate"]))
        if not self.feed.taken(number, result):
            self.control.should_training_stop = True

    def floating_point_ops(self, inputs: Any) -> int:  # noqa: ARG002
        """Not estimated."""
        return 0

    def _work(self, minibatch: Minibatch) -> list[Share]:
        return work_of(minibatch, self.config, self.accelerator.num_processes, self.accelerator.process_index)

    def _passes(self, minibatch: Minibatch, work: Sequence[Share]) -> Iterator[Pass]:
        """The passes on the device, the next one made while the model works on this one."""
        if work:
            for part in ahead(lambda share: make_pass(minibatch, share, self.policy.processor), work):
                yield part.to(self.accelerator.device)

    def _wants_old(self) -> bool:
        """Whether the trainer scores the rows before the first of several optimizer steps."""
        several = len(self._minibatches) > 1
        return several and (self.config.batch.old_logprobs == "trainer" or self._lacks_sampler())

    def _one_pass_is_old(self) -> bool:
        """Whether the weights in work are those that the update starts from, by the trainer's own numbers."""
        return self.config.batch.old_logprobs == "trainer" or self._lacks_sampler()

    def _lacks_sampler(self) -> bool:
        return any(row.logprobs is None for minibatch in self._minibatches for row in minibatch.rows)

    @torch.no_grad()
    def _score_before(self) -> dict[tuple[int, int], Tensor]:
        found: dict[tuple[int, int], Tensor] = {}
        for place, minibatch in enumerate(self._minibatches):
            work = [] if minibatch.skipped else self._work(minibatch)
            for number, part in enumerate(self._passes(minibatch, work)):
                found[place, number] = token_logprobs(self.model, part.batch, self._banned, self._temperature)
        return found

    @torch.no_grad()
    def _reference(self, part: Pass) -> Tensor:
        """[B, L]; log-probabilities under the model before training: adapters off, or its own weights."""
        if self.reference is not None:
            return token_logprobs(self.reference, part.batch, self._banned, self._temperature)
        with self.model.disable_adapter():
            return token_logprobs(self.model, part.batch, self._banned, self._temperature)
