"""The tower learns to name what lies under each visual token, and, at the patches, which letter it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vlagent.model.vision import speed_up_vision
from vlagent.randomness import seed_of
from vlagent.train.muon import MatrixAndRest, warm_then_linear
from vlagent.train.stage0.codes import Codes
from vlagent.train.stage0.config import VisionStage
from vlagent.train.stage0.data import CROP, GROUPS, OVERVIEW, Labels, Pictures
from vlagent.train.stage0.forward import augmented, look

LETTERS = 27
"""Nothing, A to Z."""
PROBE = 200
"""Held-out pictures that are looked at between steps."""


@dataclass(frozen=True, eq=False)
class VisionData:
    """What the tower learns from, and what it is measured on."""

    overviews: Pictures
    crops: Pictures
    others: tuple[Pictures, ...] = ()
    """Pictures that show no sign, in groups of one size."""
    held_overviews: Pictures | None = None
    held_crops: Pictures | None = None


class VisionTrainer:
    """A `run.Trainer`."""

    name = "vision"

    def __init__(self, model: Any, codes: Codes, data: VisionData, stage: VisionStage, seed: int) -> None:
        speed_up_vision(model)
        self.model, self.codes, self.data, self.stage, self.seed = model, codes, data, stage, seed
        size = model.config.vision_config.hidden_size
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of("letters", seed))
            self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, LETTERS))
        self._rarity = torch.ones(LETTERS)
        self._rarity[0] = 0.15
        self.optimiser = MatrixAndRest(self.named_parameters(), stage.lr, stage.muon_lr)

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The tower without its deepstack mergers, which no loss reaches yet, and the letter head."""
        for name, weight in self.model.named_parameters():
            if "visual" in name and "deepstack" not in name:
                yield name, weight
        yield from self.head.named_parameters()

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

    def keeps(self, step: int) -> bool:
        return step + 1 == self.stage.early_step

    def losses(self, step: int) -> dict[str, Tensor]:
        """The parts of one step's loss, to be summed."""
        rng = np.random.default_rng(seed_of("vision", self.seed, step))
        noise = torch.Generator().manual_seed(seed_of("vision noise", self.seed, step))
        return self._crops(rng, noise) | self._overviews(rng, noise) | self._others(rng, noise)

    def _crops(self, rng: np.random.Generator, noise: torch.Generator) -> dict[str, Tensor]:
        crops = self.data.crops
        chosen = np.sort(rng.integers(0, len(crops.pixels), self.stage.crops))
        seen = look(self.model, augmented(crops.pixels[chosen], noise))
        assert crops.letters is not None
        letters = torch.from_numpy(crops.letters[chosen].astype(np.int64))
        spelled = F.cross_entropy(self.head(seen.patches).flatten(0, 1), letters.flatten(), self._rarity)
        return {"crop": self.codes.loss(seen.merged, tensor(crops.labels[chosen]), CROP), "letters": 2 * spelled}

    def _overviews(self, rng: np.random.Generator, noise: torch.Generator) -> dict[str, Tensor]:
        overviews = self.data.overviews
        chosen = np.sort(rng.integers(0, len(overviews.pixels), self.stage.overviews))
        pixels, labels = flipped(overviews.pixels[chosen], overviews.labels[chosen], rng)
        seen = look(self.model, augmented(pixels, noise))
        return {"overview": self.codes.loss(seen.merged, tensor(labels), OVERVIEW)}

    def _others(self, rng: np.random.Generator, noise: torch.Generator) -> dict[str, Tensor]:
        if not self.data.others or not self.stage.others:
            return {}
        group = self.data.others[rng.integers(0, len(self.data.others))]
        chosen = rng.integers(0, len(group.pixels), self.stage.others)
        seen = look(self.model, augmented(group.pixels[chosen], noise))
        return {"other": self.codes.loss(seen.merged, tensor(group.labels[chosen]), OVERVIEW)}

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """Shares of held-out tokens and pictures that are named rightly."""
        return look_at(self.model, self.codes, self.data)

    def state(self) -> dict[str, Any]:
        return {"head": self.head.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.head.load_state_dict(state["head"])


@torch.no_grad()
def look_at(model: Any, codes: Codes, data: VisionData) -> dict[str, float]:
    """How well a tower names what held-out pictures show."""
    found: dict[str, float] = {}
    names = list(GROUPS)
    if data.held_overviews is not None:
        labels = tensor(data.held_overviews.labels[:PROBE])
        merged = look(model, torch.tensor(data.held_overviews.pixels[:PROBE]).float()).merged
        found |= {names[g]: float(codes.right(merged, labels, g).float().mean()) for g in OVERVIEW}
    if data.held_crops is not None:
        labels = tensor(data.held_crops.labels[:PROBE])
        merged = look(model, torch.tensor(data.held_crops.pixels[:PROBE]).float()).merged
        right = [codes.read(merged, g) == labels[..., g].amax(1) for g in CROP]
        found |= {names[g]: float(r.float().mean()) for g, r in zip(CROP, right, strict=True)}
        found["name"] = float((right[0] & right[1]).float().mean())
    return {name: round(value, 4) for name, value in found.items()}


def tensor(labels: Labels) -> Tensor:
    """Labels as torch wants indices."""
    return torch.from_numpy(labels.astype(np.int64))


def flipped(pixels: np.ndarray, labels: Labels, rng: np.random.Generator) -> tuple[np.ndarray, Labels]:
    """Overviews [N, H, W, 3] and their labels [N, T, G], mirrored left-right and upside down half of the time each.

    What they show are places and colours, which mirror; names cannot be read in them anyway.
    """
    count, side = len(pixels), round(labels.shape[1] ** 0.5)
    square = labels.reshape(count, side, side, -1).copy()
    for axis, group in ((2, 1), (1, 2)):
        if rng.random() < 0.5:
            pixels, square = np.flip(pixels, axis), np.flip(square, axis).copy()
            place = square[..., group]
            last = list(GROUPS.values())[group] - 1
            square[..., group] = np.where(place >= 0, last - place, place)
    return pixels, square.reshape(labels.shape)
