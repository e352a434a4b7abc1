"""Padding and pictures in a real model: what they are never reaches the log-probabilities that are trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from vlagent.model.logprobs import Batch, ScoredRow, collate, token_logprobs  # noqa: E402
from vlagent.model.tiny import TinySpec, TinyText, TinyVision, make_policy  # noqa: E402
from vlagent.train.rl.algorithms.config import AlgorithmConfig  # noqa: E402
from vlagent.train.rl.algorithms.objective import Scores, Totals, objective  # noqa: E402


@pytest.fixture(scope="module")
def policy() -> Any:
    torch.set_num_threads(1)
    text = TinyText(hidden=48, layers=2, heads=2, kv_heads=1, head_dim=32, ff=64)
    return make_policy(TinySpec(text=text, vision=TinyVision(hidden=32, depth=1, heads=2, ff=32)), seed=1)


def batch_of(policy: Any) -> Batch:
    """Three rows of other lengths; the policy wrote some of their tokens."""
    random, rows = np.random.default_rng(1), []
    for length in (9, 17, 12):
        own = np.zeros(length, np.bool_)
        own[length // 2 :: 2] = True
        rows.append(ScoredRow(random.integers(20, 200, length), own, ()))
    return collate(rows, policy.processor)


def gradient(policy: Any, batch: Batch) -> tuple[float, Any]:
    """The loss, and its gradient in the embeddings."""
    policy.model.zero_grad()
    new = token_logprobs(policy.model, batch, policy.processor.vocabulary.banned)
    config, totals = AlgorithmConfig(beta=0.0), Totals(3, int(batch.own.sum()))
    loss = objective(Scores(new, batch.own, new.detach() - 0.1), torch.tensor([1.0, -1.0, 0.5]), config, totals).loss
    loss.backward()
    return loss.item(), policy.model.get_input_embeddings().weight.grad.clone()


def test_other_padding_ids_give_the_same_loss_and_gradient(policy: Any) -> None:
    batch = batch_of(policy)
    loss, grad = gradient(policy, batch)
    real = torch.zeros_like(batch.own)
    for row, length in enumerate((9, 17, 12)):
        real[row, :length] = True
    batch.input_ids[~real] = 77
    other_loss, other_grad = gradient(policy, batch)
    assert other_loss == loss
    assert torch.equal(other_grad, grad)
    assert grad.abs().max() > 0


def test_passes_of_one_row_each_give_the_gradient_of_one_big_pass(policy: Any) -> None:
    """Gradient accumulation through the model, rows padded to other lengths, to 1e-5."""
    whole = batch_of(policy)
    loss, grad = gradient(policy, whole)
    policy.model.zero_grad()
    config, totals, losses = AlgorithmConfig(beta=0.0), Totals(3, int(whole.own.sum())), []
    for row, length in enumerate((9, 17, 12)):
        ids, own = whole.input_ids[row, :length].numpy(), whole.own[row, :length].numpy()
        part = collate([ScoredRow(ids, own, ())], policy.processor)
        new = token_logprobs(policy.model, part, policy.processor.vocabulary.banned)
        advantage = torch.tensor([[1.0, -1.0, 0.5][row]])
        one = objective(Scores(new, part.own, new.detach() - 0.1), advantage, config, totals).loss
        one.backward()
        losses.append(one.item())
    assert sum(losses) == pytest.approx(loss, abs=1e-5)
    assert torch.allclose(policy.model.get_input_embeddings().weight.grad, grad, atol=1e-5)
