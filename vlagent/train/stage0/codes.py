"""Fixed directions of the visual-token space that tower and decoder agree on before they meet.

Each visual token says what lies under it, and only that: local codes are learnt several times faster than ones for the
whole picture. Shape letters: N = pictures, T = visual tokens, G = groups, C = directions of a group, D = hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vlagent.train.stage0.data import GROUPS, Labels

AMPLITUDE = 2.0
"""Length of a code along its direction."""
SHARPNESS = 3.0
"""Factor from a projection to a logit."""


class Codes:
    """Orthonormal rows, split by group; `rest` are the directions that no code uses."""

    def __init__(self, hidden: int, seed: int = 77) -> None:
        sizes = list(GROUPS.values())
        if sum(sizes) > hidden:
            raise ValueError(f"{sum(sizes)} codes do not fit a hidden size of {hidden}")
        generator = torch.Generator().manual_seed(seed)
        basis = torch.linalg.qr(torch.randn(hidden, hidden, generator=generator))[0].T
        self.groups: list[Tensor] = list(torch.split(basis[: sum(sizes)], sizes))
        self.rest = basis[sum(sizes) :]
        self.hidden = hidden

    def loss(self, features: Tensor, labels: Tensor, active: Sequence[int]) -> Tensor:
        """How far features [N, T, D] are from the codes of their labels [N, T, G] in the `active` groups."""
        total = features.new_zeros(())
        for group in active:
            directions = self.groups[group]
            held, wanted = features @ directions.T, labels[..., group]
            shows = wanted >= 0
            if bool(shows.any()):
                here, target = held[shows], wanted[shows]
                code = AMPLITUDE * F.one_hot(target, len(directions)).to(here.dtype)
                total = total + F.cross_entropy(SHARPNESS * here, target) + 0.3 * ((here - code) ** 2).sum(-1).mean()
            if not bool(shows.all()):
                total = total + 0.6 * (held[~shows] ** 2).sum(-1).mean()
        others = [part for i, part in enumerate(self.groups) if i not in active]
        silent = features @ torch.cat([*others, self.rest]).T
        return total + 0.02 * (silent**2).sum(-1).mean()

    @torch.no_grad()
    def right(self, features: Tensor, labels: Tensor, group: int) -> Tensor:
        """Whether each visual token that shows something of a group says the right thing, [S]."""
        wanted = labels[..., group]
        shows = wanted >= 0
        return (features @ self.groups[group].T)[shows].argmax(-1) == wanted[shows]

    @torch.no_grad()
    def read(self, features: Tensor, group: int) -> Tensor:
        """What a whole picture says of a group, [N]: the direction with the largest sum over its tokens."""
        return (features @ self.groups[group].T).sum(1).argmax(-1)

    def imitate(self, labels: Labels, noise: float, generator: torch.Generator) -> Tensor:
        """Codes [I, D] as an imperfect tower gives them for labels [I, G]: jittered, mixed with wrong ones, noisy."""
        wanted = torch.from_numpy(np.asarray(labels, np.int64))
        features = torch.randn(len(wanted), self.hidden, generator=generator) * noise
        for group, directions in enumerate(self.groups):
            rows = (wanted[:, group] >= 0).nonzero()[:, 0]
            if len(rows):
                features[rows] += self._mixture(wanted[rows, group], directions, group, generator)
        return features

    def _mixture(self, label: Tensor, directions: Tensor, group: int, generator: torch.Generator) -> Tensor:
        count, size = len(label), len(directions)
        if list(GROUPS)[group] in ("x", "y"):
            wrong = (label + torch.randint(-1, 2, (count,), generator=generator)).clamp(0, size - 1)
            share = 0.4 * torch.rand(count, 1, generator=generator)
        else:
            wrong = torch.randint(0, size, (count,), generator=generator)
            share = (0.2 if group == 0 else 0.35) * torch.rand(count, 1, generator=generator)
        gain = 0.65 + 0.45 * torch.rand(count, 1, generator=generator)
        return AMPLITUDE * gain * ((1 - share) * directions[label] + share * directions[wrong])
