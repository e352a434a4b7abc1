"""Tower and decoder together, on pixels: imitation of right episodes, with the code losses kept on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vlagent.model.vision import speed_up_vision
from vlagent.randomness import seed_of
from vlagent.train.muon import MatrixAndRest, warm_then_linear
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import JoinStage
from vlagent.train.stage0.data import CROP, OVERVIEW, Row
from vlagent.train.stage0.decoder import batches
from vlagent.train.stage0.forward import augmented, look, own_logits
from vlagent.train.stage0.vision import VisionData, look_at, tensor

Draw = Callable[[int], list[Row]]
"""step -> the rows of that step, with pixels."""


class JoinTrainer:
    """A `run.Trainer`."""

    name = "join"

    def __init__(
        self, model: Any, codes: Codes, draw: Draw, data: VisionData, stage: JoinStage, seed: int, rank: int = 0
    ) -> None:
        speed_up_vision(model)
        self.model, self.codes, self.draw, self.data, self.stage = model, codes, draw, data, stage
        self.seed, self.rank = seed, rank
        self.optimiser = MatrixAndRest(self.named_parameters(), stage.lr, stage.muon_lr)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        yield from self.model.named_parameters()

    @property
    def steps(self) -> int:
        return self.stage.steps

    @property
    def planned(self) -> int:
        return self.stage.steps

    def rate(self, step: int) -> float:
        """Falls linearly."""
        return warm_then_linear(step, self.stage.steps)

    def after(self, step: int) -> None:
        """Nothing follows a step."""

    def keeps(self, step: int) -> bool:  # noqa: ARG002
        return False

    def losses(self, step: int) -> dict[str, Tensor]:
        """The parts of one step's loss, to be summed."""
        noise = torch.Generator().manual_seed(seed_of("join noise", self.seed, step, self.rank))
        seen = _Pictures(self.draw(step))
        merged, deep, by_size = seen.look(self.model, noise)
        logits, targets = [], []
        for together in batches(seen.rows):
            at = seen.places(together)
            rows_logits, rows_targets = own_logits(self.model, together, merged[at], [level[at] for level in deep])
            logits.append(rows_logits)
            targets.append(rows_targets)
        lm = F.cross_entropy(torch.cat(logits), torch.cat(targets))
        code = self._code_loss(by_size) + self._further_crops(step, noise)
        return {"lm": self.stage.lm_weight * lm, "codes": self.stage.code_weight * code}

    def _code_loss(self, by_size: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """Crops by their groups; every other picture by those of an overview."""
        total = torch.zeros(())
        for merged, labels in by_size:
            crops = (labels[..., list(CROP)] >= 0).flatten(1).any(1)
            for which, active in ((crops, CROP), (~crops, OVERVIEW)):
                if bool(which.any()):
                    total = total + self.codes.loss(merged[which], labels[which], active)
        return total

    def _further_crops(self, step: int, noise: torch.Generator) -> Tensor:
        crops = self.data.crops
        if not self.stage.crops:
            return torch.zeros(())
        rng = np.random.default_rng(seed_of("join crops", self.seed, step, self.rank))
        chosen = np.sort(rng.integers(0, len(crops.pixels), self.stage.crops))
        seen = look(self.model, augmented(crops.pixels[chosen], noise))
        return self.codes.loss(seen.merged, tensor(crops.labels[chosen]), CROP)

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """Of the tower alone; how the whole acts is measured in episodes."""
        return look_at(self.model, self.codes, self.data)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """There is nothing of its own to restore."""
        assert not state


class _Pictures:
    """The pictures of some rows: looked at by size, found again by row."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._start: dict[int, int] = {}
        self._sizes: dict[tuple[int, ...], list[int]] = {}
        self._pixels: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []
        count = 0
        self._first: list[int] = []
        for row in rows:
            self._start[id(row)] = count
            at = 0
            for pixels, (height, width) in zip(row.pixels, row.grids, strict=True):
                self._sizes.setdefault(pixels.shape, []).append(len(self._pixels))
                self._pixels.append(pixels)
                self._labels.append(row.labels[at : at + height * width])
                self._first.append(count)
                at += height * width
                count += height * width
        self.count = count

    def look(self, model: Any, noise: torch.Generator) -> tuple[Tensor, list[Tensor], list[tuple[Tensor, Tensor]]]:
        """Features [I, D] of all rows in order, their deepstack levels, and (features, labels) by size."""
        hidden, levels = model.config.text_config.hidden_size, len(model.config.vision_config.deepstack_visual_indexes)
        parts: list[tuple[list[int], Tensor, list[Tensor], Tensor]] = []
        for members in self._sizes.values():
            seen = look(model, augmented(np.stack([self._pixels[i] for i in members]), noise))
            parts.append((members, seen.merged, seen.deep, tensor(np.stack([self._labels[i] for i in members]))))
        order = torch.cat([self._slots(members, merged.shape[1]) for members, merged, _, _ in parts])
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        merged = torch.cat([part[1].reshape(-1, hidden) for part in parts])[back]
        deep = [torch.cat([part[2][k].reshape(-1, hidden) for part in parts])[back] for k in range(levels)]
        return merged, deep, [(part[1], part[3]) for part in parts]

    def _slots(self, members: Sequence[int], tokens: int) -> Tensor:
        starts = torch.tensor([self._first[i] for i in members])
        return (starts[:, None] + torch.arange(tokens)).flatten()

    def places(self, rows: Sequence[Row]) -> Tensor:
        """Where the features of these rows are among those of all."""
        spans = [range(self._start[id(row)], self._start[id(row)] + len(row.labels)) for row in rows]
        return torch.tensor([place for span in spans for place in span], dtype=torch.long)
