"""A policy of a few numbers learns by the code under test, and each deliberate fault of that code makes it worse.

Two groups of arms: in each the policy draws one of four, and only the last is worth something. After the draw comes an
observation that the policy did not write; it becomes the less likely the likelier the draw was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from accept import mutants  # noqa: E402
from tests.train.rl.algorithms.parts import rewards_of  # noqa: E402
from vlagent.train.rl.algorithms import objective as objective_module  # noqa: E402
from vlagent.train.rl.algorithms.config import AlgorithmConfig  # noqa: E402
from vlagent.train.rl.algorithms.objective import Scores, Totals  # noqa: E402
from vlagent.train.rl.algorithms.registry import ADVANTAGES, get_advantage  # noqa: E402

PROMPTS, G, ARMS = 2, 8, 4


def learned(trained: Any = None, steps: int = 40, seed: int = 1) -> float:
    """Share of good draws at the end; at the start it is 1/4."""
    generator = torch.Generator().manual_seed(seed)
    policy = torch.zeros(PROMPTS, ARMS, requires_grad=True)
    optimizer = torch.optim.AdamW([policy], lr=0.1, weight_decay=0.0)
    config = AlgorithmConfig(beta=0.0)
    for _ in range(steps):
        drawn = torch.multinomial(policy.detach().softmax(1), G, replacement=True, generator=generator)
        rewards = rewards_of((drawn == ARMS - 1).float().tolist())
        values = torch.tensor(get_advantage("bn_gspo")(rewards, config).values, dtype=torch.float32)
        logs = policy.log_softmax(1)
        own = logs.gather(1, drawn).reshape(-1)
        observed = -4 * own
        mask = torch.tensor([[True, False]]).expand(PROMPTS * G, 2)
        scores = Scores(torch.stack([own, observed], 1), mask if trained is None else trained(mask))
        optimizer.zero_grad()
        objective_module.objective(scores, values, config, Totals(PROMPTS * G, PROMPTS * G)).loss.backward()
        optimizer.step()
    return float(policy.detach().softmax(1)[:, ARMS - 1].mean())


@pytest.fixture(autouse=True)
def _faults_are_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADVANTAGES, "bn_gspo", ADVANTAGES["bn_gspo"])
    monkeypatch.setattr(objective_module, "surrogate", objective_module.surrogate)


def test_the_policy_learns() -> None:
    assert learned() > 0.9


def test_the_wrong_sign_of_bn_gspo_makes_it_worse() -> None:
    mutants.bn_gspo_sign()
    assert learned() < 0.05


def test_the_wrong_sign_of_the_objective_makes_it_worse() -> None:
    mutants.objective_sign()
    assert learned() < 0.05


def test_a_dropped_mask_makes_it_worse() -> None:
    assert learned(trained=torch.ones_like) < 0.05


def test_the_mutant_without_a_mask_trains_what_the_policy_did_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    from vlagent.train.rl import groups
    from vlagent.types import TrainRow

    row = TrainRow(np.arange(4), np.array([False, False, True, False]), None)
    monkeypatch.setattr(groups, "_row", lambda *args: row)
    mutants.mask_dropped()
    assert groups._row().mask.tolist() == [False, True, True, True]


def test_every_mutant_has_a_name() -> None:
    assert set(mutants.MUTANTS) == {"bn_gspo_sign", "objective_sign", "mask_dropped"}
