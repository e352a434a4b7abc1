"""The decoder learns to act and to copy, with codes where the tower's features will be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vlagent.randomness import seed_of
from vlagent.train.muon import MatrixAndRest, warm_then_linear
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import DecoderStage, Phase
from vlagent.train.stage0.data import Row
from vlagent.train.stage0.forward import own_logits

Draw = Callable[[int, Phase], list[Row]]
"""(step, phase) -> the rows of that step."""

CHECK_EVERY = 20
"""Steps between two looks at whether a phase is over."""
TOKENS_AT_ONCE = 4096
"""Padded tokens of one forward pass; rows of similar length go together."""


class DecoderTrainer:
    """A `run.Trainer`."""

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
        self._phase, self._phase_start = 0, 0
        self.optimiser = MatrixAndRest(self.named_parameters(), stage.lr, stage.muon_lr)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Everything but the tower."""
        for name, weight in self.model.named_parameters():
            if "visual" not in name:
                yield name, weight

    @property
    def planned(self) -> int:
        """Steps at most, whatever happens."""
        return sum(phase.steps for phase in self.stage.phases)

    @property
    def steps(self) -> int:
        """Steps at most, as things stand."""
        return self._phase_start + sum(phase.steps for phase in self.stage.phases[self._phase :])

    def rate(self, step: int) -> float:
        """Full after the warm-up, but in the last phase, where it falls."""
        warm = warm_then_linear(step, 1, end=1.0)
        if self._phase + 1 < len(self.stage.phases):
            return warm
        return warm * warm_then_linear(step - self._phase_start, self.stage.phases[-1].steps, warm=1)

    def after(self, step: int) -> None:
        """Go on to the next phase if this step was the last of its phase."""
        phase, done = self.stage.phases[self._phase], step + 1 - self._phase_start
        over = done >= phase.steps
        if phase.until is not None and done % CHECK_EVERY == 0 and not over:
            over = self._accuracies(self.draw(-2 - step, phase), phase.noise)["coordinate"] >= phase.until
        if over and self._phase + 1 < len(self.stage.phases):
            self._phase, self._phase_start = self._phase + 1, step + 1

    def keeps(self, step: int) -> bool:  # noqa: ARG002
        return False

    def losses(self, step: int) -> dict[str, Tensor]:
        """The loss of one step."""
        phase = self.stage.phases[self._phase]
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

    def metrics(self) -> dict[str, float]:
        """Shares of fresh rows' own tokens that are the likeliest, by class."""
        last = self.stage.phases[-1]
        return self._accuracies(self.draw(-1, last.model_copy(update={"rows": 48, "drills": 32})), last.noise)

    @torch.no_grad()
    def _accuracies(self, rows: Sequence[Row], noise: float) -> dict[str, float]:
        logits, targets = self._run(rows, noise, 1)
        right = (logits.argmax(-1) == targets).float()
        found = {"all": float(right.mean())}
        for name, ids in self._classes.items():
            among = torch.isin(targets, ids)
            if bool(among.any()):
                found[name] = float(right[among].mean())
        return {name: round(value, 4) for name, value in found.items()}

    def state(self) -> dict[str, Any]:
        return {"phase": self._phase, "phase_start": self._phase_start}

    def restore(self, state: dict[str, Any]) -> None:
        self._phase, self._phase_start = state["phase"], state["phase_start"]


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
