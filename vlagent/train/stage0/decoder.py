"""The decoder learns to act and to copy, with codes where the tower's features will be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vlagent.randomness import seed_of
from vlagent.train.muon import MatrixAndRest
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import DecoderStage, Phase
from vlagent.train.stage0.data import Row
from vlagent.train.stage0.forward import own_logits

Draw = Callable[[int, Phase], list[Row]]
"""(step, phase) -> the rows of that step."""

TOKENS_AT_ONCE = 4096
"""Padded tokens of one forward pass; rows of similar length go together."""


class DecoderTrainer:
    """One object a stage: `losses(step)`, `metrics()`, `named_parameters()`."""

    name = "decoder"

    def __init__(
        self, model: Any, codes: Codes, draw: Draw, stage: DecoderStage, seed: int, classes: dict[str, Sequence[int]]
    ) -> None:
        """`classes` name token ids whose accuracy is reported; "coordinate" and "difference" have own weights."""
        self.model, self.codes, self.draw, self.stage, self.seed = model, codes, draw, stage, seed
        self._weights = torch.ones(model.config.text_config.vocab_size)
        self._weights[list(classes["coordinate"])] = stage.coordinate_weight
        self._weights[list(classes["difference"])] = stage.difference_weight
        self._classes = {name: torch.tensor(sorted(ids)) for name, ids in classes.items()}
        self.optimiser = MatrixAndRest(self.named_parameters(), stage.lr, stage.muon_lr)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Everything but the tower."""
        for name, weight in self.model.named_parameters():
            if "visual" not in name:
                yield name, weight

    def phase(self, step: int) -> Phase:
        """The phase that a step belongs to."""
        for phase in self.stage.phases:
            if step < phase.steps:
                return phase
            step -= phase.steps
        return self.stage.phases[-1]

    def losses(self, step: int) -> dict[str, Tensor]:
        """The loss of one step."""
        phase = self.phase(step)
        logits, targets = self._run(self.draw(step, phase), phase.noise, seed_of("codes", self.seed, step))
        return {"lm": weighted(logits, targets, self._weights)}

    def _run(self, rows: Sequence[Row], noise: float, seed: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(seed)
        parts = []
        for together in batches(rows):
            visual = self.codes.imitate(np.concatenate([row.labels for row in together]), noise, generator)
            parts.append(own_logits(self.model, together, visual))
        logits, targets = zip(*parts, strict=True)
        return torch.cat(logits), torch.cat(targets)

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """Shares of fresh rows' own tokens that are the likeliest, by class."""
        last = self.stage.phases[-1]
        rows = self.draw(-1, last.model_copy(update={"rows": 48, "drills": 32}))
        logits, targets = self._run(rows, last.noise, 1)
        right = (logits.argmax(-1) == targets).float()
        found = {"all": float(right.mean())}
        for name, ids in self._classes.items():
            among = torch.isin(targets, ids)
            if bool(among.any()):
                found[name] = float(right[among].mean())
        return {name: round(value, 4) for name, value in found.items()}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """There is nothing of its own to restore."""
        assert not state


def weighted(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Cross-entropy where each target counts by its token's weight."""
    by_token = weights[targets]
    return (F.cross_entropy(logits, targets, reduction="none") * by_token).sum() / by_token.sum()


def batches(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows by length in groups of little padding. Those without pictures apart: their slots are empty all the same."""
    ordered = sorted(rows, key=lambda row: len(row.ids))
    group: list[Row] = []
    for row in ordered:
        too_long = group and len(row.ids) > 1.35 * len(group[0].ids) + 8
        if group and (too_long or len(row.ids) * (len(group) + 1) > TOKENS_AT_ONCE):
            yield group
            group = []
        group.append(row)
    yield group
