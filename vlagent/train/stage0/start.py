"""Starting weights: tokens begin where the codes of what they name are, and numbers on waves.

Shape letters: V = vocabulary, D = hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vlagent.train.stage0.codes import Codes

TOKEN_LENGTH = 0.68
"""Length of an embedding that stands on one code: that of a random one."""
FREQUENCIES = (3, 12, 19, 21, 22, 29, 33, 38, 40, 41, 46, 52, 61, 65)
"""Turns of each wave over `PERIOD`; differences of numbers on such waves are easily learnt. Chosen by search: no two
numbers up to 70 apart are more alike than 0.30, where waves of low frequency make neighbours nearly the same."""
PERIOD = 140


@dataclass(frozen=True)
class Meanings:
    """Which tokens name what."""

    codes: Mapping[int, Sequence[tuple[int, int]]]
    """Token id -> the (group, direction) pairs that it names."""
    years: Sequence[int]
    """Token ids of consecutive years."""
    differences: Sequence[int]
    """Token ids of 0, 1, 2, ..."""


@torch.no_grad()
def place_embeddings(model: Any, codes: Codes, meanings: Meanings) -> None:
    """Put the embeddings of tokens that mean something where they are easily matched with what they mean."""
    table: Tensor = model.model.language_model.embed_tokens.weight
    placed: dict[int, Tensor] = {}
    for token, named in meanings.codes.items():
        directions = torch.stack([codes.groups[group][at] for group, at in named])
        placed[token] = directions.sum(0) * TOKEN_LENGTH / math.sqrt(len(named))
    width = 2 * len(FREQUENCIES)
    for tokens, basis in (
        (meanings.years, codes.rest[:width]),
        (meanings.differences, codes.rest[width : 2 * width]),
    ):
        for number, token in enumerate(tokens):
            placed[token] = placed.get(token, torch.zeros(codes.hidden)) + _wave(number) @ basis
    for token, vector in placed.items():
        table[token] = vector


def _wave(number: int) -> Tensor:
    """[2 * frequencies], of length `TOKEN_LENGTH`."""
    angles = torch.tensor([2 * math.pi * turns * number / PERIOD for turns in FREQUENCIES])
    return torch.stack([angles.cos(), angles.sin()], 1).flatten() * TOKEN_LENGTH / math.sqrt(len(FREQUENCIES))
