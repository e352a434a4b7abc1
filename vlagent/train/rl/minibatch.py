"""A step's rows as optimizer minibatches with their advantages, and those as forward passes.

Shape letters: N = rows of a minibatch, B = rows of a pass, L = padded length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from vlagent.chat.base import ImagePart
from vlagent.model.chatml import image_runs
from vlagent.model.load import Processor
from vlagent.model.logprobs import Batch, ScoredRow, collate
from vlagent.train.batch import Share, shares
from vlagent.train.rl.algorithms.base import Advantages, Rewards
from vlagent.train.rl.algorithms.objective import Totals
from vlagent.train.rl.algorithms.registry import get_advantage
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.groups import TrainingSet
from vlagent.types import TrainRow

NOTHING = Advantages(np.empty(0), np.empty(0, np.bool_), 0.0, None)
"""Of a minibatch without rows."""


@dataclass
class Minibatch:
    """What one optimizer step is made of, over all processes."""

    rows: list[TrainRow]
    """[N]; their advantages are set."""
    advantages: Advantages
    """[N]"""
    passing: list[int] = field(default_factory=list)
    """Numbers of the rows that pass through the model; the others have a loss of 0 and count in the mean only."""

    @property
    def skipped(self) -> bool:
        """Whether nothing is taught here (p = 0), so that no optimizer step is taken."""
        return self.advantages.p == 0 or not self.passing

    @property
    def totals(self) -> Totals:
        """Of the rows that pass."""
        return _totals([self.rows[i] for i in self.passing])

    def scale(self, aggregation: str) -> float:
        """What turns a mean over the passing rows into the mean over all rows, the others being 0."""
        part, whole = self.totals, _totals(self.rows)
        if aggregation == "token_mean":
            return part.tokens / whole.tokens
        return part.sequences / whole.sequences


def _totals(rows: Sequence[TrainRow]) -> Totals:
    return Totals(len(rows), int(sum(row.mask.sum() for row in rows)))


def make_minibatches(training: TrainingSet, groups: int, config: RlConfig) -> list[Minibatch]:
    """The rows of a step of `groups` groups, whole groups in turn, each minibatch with advantages of its own."""
    parts = config.batch.minibatches
    where = training.rewards.group * parts // max(1, groups)
    return [_minibatch(training, np.flatnonzero(where == part), config) for part in range(parts)]


def _minibatch(training: TrainingSet, chosen: np.ndarray, config: RlConfig) -> Minibatch:
    if not len(chosen):
        return Minibatch([], NOTHING)
    rows = [training.rows[i] for i in chosen]
    algorithm = config.algorithm
    advantages = get_advantage(algorithm.advantage)(_part(training.rewards, chosen), algorithm)
    for row, value in zip(rows, advantages.values, strict=True):
        row.advantage = float(value)
    everyone = algorithm.beta > 0 or algorithm.entropy > 0 or config.batch.every_row
    return Minibatch(rows, advantages, [i for i, row in enumerate(rows) if everyone or row.advantage != 0.0])


def _part(rewards: Rewards, chosen: np.ndarray) -> Rewards:
    parts = {name: values[chosen] for name, values in rewards.parts.items()}
    return Rewards(rewards.total[chosen], parts, rewards.weights, rewards.group[chosen])


@dataclass(eq=False)
class Pass:
    """The tensors of one forward pass."""

    batch: Batch
    counted: Tensor
    """[B, L] bool; own tokens, none of them where this process only keeps the others company."""
    advantages: Tensor
    """[B]"""
    sampler: Tensor | None
    """[B, L]; the rollout engine's log-probabilities, None where some row has none."""

    def to(self, device: torch.device) -> Pass:
        sampler = None if self.sampler is None else self.sampler.to(device)
        return Pass(self.batch.to(device), self.counted.to(device), self.advantages.to(device), sampler)


def work_of(minibatch: Minibatch, config: RlConfig, world: int, rank: int) -> list[Share]:
    """The forward passes of one process; every process has the same number of them."""
    rows = [minibatch.rows[i] for i in minibatch.passing]
    cut = shares(range(len(rows)), [len(row.ids) for row in rows], config.batch.passes, world, rank)
    return [Share([minibatch.passing[i] for i in share.rows], share.counts) for share in cut]


def make_pass(minibatch: Minibatch, share: Share, processor: Processor) -> Pass:
    """Raises ValueError where a row's pictures and places disagree, `ServiceError` for a picture that is gone."""
    rows = [minibatch.rows[i] for i in share.rows]
    for row in rows:
        check_pictures(row, processor)
    batch = collate([_scored(row) for row in rows], processor)
    counted = batch.own if share.counts else torch.zeros_like(batch.own)
    advantages = torch.tensor([row.advantage for row in rows], dtype=torch.float32)
    return Pass(batch, counted, advantages, _sampler(rows, batch.own.shape[1]))


def _scored(row: TrainRow) -> ScoredRow:
    return ScoredRow(row.ids, row.mask, [ImagePart(*both) for both in zip(row.images, row.views, strict=True)])


def check_pictures(row: TrainRow, processor: Processor) -> None:
    """ValueError that names the sample where its pictures do not fill their places exactly."""
    places = [stop - start for start, stop in image_runs(row.ids, processor.vocabulary.ids["<|image_pad|>"])]
    wanted = [processor.visual_tokens(view) for view in row.views]
    if wanted != places:
        raise ValueError(f"sample {row.sample_id}: pictures of {wanted} visual tokens, places for {places}")


def _sampler(rows: Sequence[TrainRow], length: int) -> Tensor | None:
    values = np.zeros((len(rows), length), np.float32)
    for i, row in enumerate(rows):
        if row.logprobs is None:
            return None
        values[i, : len(row.logprobs)] = row.logprobs
    return torch.from_numpy(values)
