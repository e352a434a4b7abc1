"""The order of rows, and rows as padded batches with their pictures.

Everything here is a pure function of (seed, epoch, step), so a position in the data is one number, and what a step
holds does not depend on how many processes share it. Rows are grouped by length and padded; they are not packed into
one sequence, since positions and attention of the unmodified models are exact only for a row of its own.
Shape letter: B = rows of a forward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from vlagent.chat.base import ImagePart
from vlagent.model.load import Processor
from vlagent.model.logprobs import Batch, ScoredRow, collate
from vlagent.randomness import rng_of
from vlagent.train.config import BatchConfig
from vlagent.types import TrainRow

W = TypeVar("W")
M = TypeVar("M")


@dataclass(frozen=True)
class Mixture:
    """How many rows each source has, and how often an epoch sees each of them."""

    sizes: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def epoch_rows(self) -> int:
        return sum(self._wanted(i) for i in range(len(self.sizes)))

    def order(self, seed: int, epoch: int) -> list[int]:
        """Numbers of the rows of one epoch, shuffled; rows are numbered source after source."""
        drawn: list[int] = []
        first = 0
        for i, size in enumerate(self.sizes):
            copies, rest = divmod(self._wanted(i), size)
            extra = rng_of(seed, "share", epoch, i).sample(range(size), rest)
            drawn += [first + row for row in [*list(range(size)) * copies, *extra]]
            first += size
        rng_of(seed, "order", epoch).shuffle(drawn)
        return drawn

    def _wanted(self, i: int) -> int:
        return max(1, round(self.sizes[i] * self.shares[i]))


def epoch_steps(order: Sequence[int], lengths: Sequence[int], config: BatchConfig, seed: int) -> list[list[int]]:
    """The rows of each step of an epoch; the last step may be smaller."""
    window = config.rows * config.bucket_steps
    steps: list[list[int]] = []
    for start in range(0, len(order), window):
        part = list(order[start : start + window])
        if config.bucket_steps > 1:
            part.sort(key=lambda row: lengths[row])
        chunks = [part[i : i + config.rows] for i in range(0, len(part), config.rows)]
        rng_of(seed, "bucket", start, *part[:1]).shuffle(chunks)
        steps += chunks
    return steps


@dataclass(frozen=True)
class Share:
    """What one process does of one step: the rows of each forward pass, and whether they count."""

    rows: list[int]
    counts: bool = True
    """False where other processes still work and this one only keeps them company."""


def shares(step: Sequence[int], lengths: Sequence[int], config: BatchConfig, world: int, rank: int) -> list[Share]:
    """The forward passes of process `rank` of `world`; every process has the same number of them."""
    ordered = sorted(step, key=lambda row: (lengths[row], row))
    cuts = [_cut(ordered[i::world], lengths, config) for i in range(world)]
    most = max(len(cut) for cut in cuts)
    mine = [Share(rows) for rows in cuts[rank]]
    return mine + [Share(ordered[:1], counts=False)] * (most - len(mine))


def _cut(rows: Sequence[int], lengths: Sequence[int], config: BatchConfig) -> list[list[int]]:
    """Rows, shortest first, into passes within `micro_rows` and `micro_tokens`."""
    passes: list[list[int]] = []
    for row in rows:
        fits = bool(passes) and len(passes[-1]) < config.micro_rows
        if fits and (len(passes[-1]) + 1) * lengths[row] <= config.micro_tokens:
            passes[-1].append(row)
        else:
            passes.append([row])
    return passes


@dataclass(eq=False)
class Micro:
    """The tensors of one forward pass."""

    batch: Batch
    weights: Tensor
    """[B]; of each row's tokens in the loss."""
    padded: int
    """Tokens, padding included."""


def make_micro(rows: Sequence[TrainRow], processor: Processor, *, counts: bool = True) -> Micro:
    """Pad rows on the right and load their pictures; the first token of a row is never scored.

    Raises ValueError for a row whose pictures and placeholders disagree, `ServiceError` for a picture that is gone.
    """
    scored = []
    for row in rows:
        parts = [ImagePart(ref, view) for ref, view in zip(row.images, row.views, strict=True)]
        scored.append(ScoredRow(row.ids, row.mask, parts))
    batch = collate(scored, processor)
    weights = torch.tensor([row.advantage if counts else 0.0 for row in rows], dtype=torch.float32)
    return Micro(batch, weights, batch.input_ids.numel())


def prefetch(rows: Sequence[TrainRow], work: Sequence[Share], processor: Processor) -> Iterator[Micro]:
    """The passes of one step, the next one read from disk while the model works on this one."""

    def make(share: Share) -> Micro:
        return make_micro([rows[i] for i in share.rows], processor, counts=share.counts)

    return ahead(make, work)


def ahead(make: Callable[[W], M], work: Sequence[W]) -> Iterator[M]:
    """`make` of each piece of work, in order, always one ahead of who takes them."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(make, work[0])
        for piece in [*work[1:], None]:
            ready = following.result()
            if piece is not None:
                following = pool.submit(make, piece)
            yield ready
