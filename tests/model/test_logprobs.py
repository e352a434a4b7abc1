from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.model.stock import stock_logprobs
from vlagent.chat.base import Message, TextPart
from vlagent.model.logprobs import (
    ScoredRow,
    collate,
    masked_log_softmax,
    token_logprobs,
    token_logprobs_entropy,
)


def _rows(policy: Any, parts: Any) -> list[ScoredRow]:
    """Conversations with no, one and several pictures, early and late."""
    made = []
    for pictures in ((), (0,), (1, 2), (3, 0, 1)):
        messages = [Message("system", (TextPart("Look."),))]
        for turn, i in enumerate(pictures or (None,)):
            shown = () if i is None else (parts[i],)
            messages.append(Message("user", (TextPart(f"turn {turn} "), *shown, TextPart("?"))))
            messages.append(Message("assistant", (TextPart(f"<think>{turn}</think><answer>{turn * 7}</answer>"),)))
        rendered = policy.processor.renderer.render(messages, reply=False)
        made.append(ScoredRow(rendered.ids, rendered.own, rendered.images))
    return made


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_padded_batches_equal_the_stock_forward_row_by_row(policy: Any, parts: Any, temperature: float) -> None:
    rows = _rows(policy, parts)
    batch = collate(rows, policy.processor, multiple_of=64)
    assert batch.input_ids.shape[1] % 64 == 0
    with torch.no_grad():
        ours = token_logprobs(policy.model, batch, policy.processor.vocabulary.banned, temperature).numpy()
    for i, row in enumerate(rows):
        stock = stock_logprobs(policy, row.ids, row.images, temperature)
        assert np.abs(ours[i, : len(row.ids)] - np.where(row.own, stock, 0.0)).max() < 1e-4
        assert not ours[i, len(row.ids) :].any()


def test_a_rows_pictures_matter(policy: Any, parts: Any) -> None:
    row = _rows(policy, parts)[1]
    other = ScoredRow(row.ids, row.own, [parts[3]])
    with torch.no_grad():
        a, b = token_logprobs(policy.model, collate([row, other], policy.processor), ())
    assert (a - b).abs().max() > 1e-3


def test_a_banned_token_has_no_probability_and_the_others_share_it(policy: Any, parts: Any) -> None:
    logits = torch.tensor([[1.0, 2.0, 3.0]])
    logprobs = masked_log_softmax(logits, [2])
    assert logprobs[0, 2] == -torch.inf
    assert torch.allclose(logprobs[0, :2].exp(), torch.softmax(torch.tensor([1.0, 2.0]), 0))
    batch = collate(_rows(policy, parts), policy.processor)
    with torch.no_grad():
        free, banned = (token_logprobs(policy.model, batch, ids) for ids in ((), policy.processor.vocabulary.banned))
    assert (banned >= free - 1e-6).all()
    assert (banned - free).max() > 1e-3


def test_temperature_zero_counts_as_one() -> None:
    logits = torch.randn(2, 5)
    assert torch.equal(masked_log_softmax(logits, [], 0.0), masked_log_softmax(logits, [], 1.0))
    assert not torch.allclose(masked_log_softmax(logits, [], 0.5), masked_log_softmax(logits, [], 1.0))


def test_the_entropy_is_that_of_the_unbanned_distribution(policy: Any, parts: Any) -> None:
    batch = collate(_rows(policy, parts), policy.processor)
    with torch.no_grad():
        _, entropy = token_logprobs_entropy(policy.model, batch, policy.processor.vocabulary.banned)
    limit = np.log(policy.processor.vocabulary.size - len(policy.processor.vocabulary.banned))
    assert (entropy[batch.own] > 0).all()
    assert (entropy[batch.own] <= limit + 1e-5).all()
    assert not entropy[~batch.own].any()


def test_finite_gradients_reach_every_part_of_the_model(policy: Any, parts: Any) -> None:
    batch = collate(_rows(policy, parts), policy.processor)
    policy.model.zero_grad()
    token_logprobs_entropy(policy.model, batch, policy.processor.vocabulary.banned)[0].sum().backward()
    parts_of = {"visual.blocks": 0.0, "visual.merger": 0.0, "language_model.layers": 0.0, "embed_tokens": 0.0}
    for name, weight in policy.model.named_parameters():
        assert weight.grad is None or torch.isfinite(weight.grad).all()
        for part in parts_of:
            if part in name and weight.grad is not None:
                parts_of[part] += weight.grad.abs().sum().item()
    policy.model.zero_grad()
    assert all(total > 0 for total in parts_of.values()), parts_of


def test_a_gradient_step_raises_the_logprob_of_what_was_said(policy: Any, parts: Any) -> None:
    batch, banned = collate(_rows(policy, parts), policy.processor), policy.processor.vocabulary.banned
    weights = list(policy.model.parameters())
    policy.model.zero_grad()
    before = token_logprobs(policy.model, batch, banned).sum()
    grads = torch.autograd.grad(before, weights, allow_unused=True)
    norm2 = sum(float((g**2).sum()) for g in grads if g is not None)
    size = 1e-2 / norm2
    with torch.no_grad():
        for sign in (1, -1):
            for weight, grad in zip(weights, grads, strict=True):
                if grad is not None:
                    weight.add_(grad, alpha=sign * size)
            if sign == 1:
                after = token_logprobs(policy.model, batch, banned).sum()
    assert (after - before).item() == pytest.approx(1e-2, rel=0.1)


def test_a_row_whose_pictures_and_placeholders_disagree_is_refused(policy: Any, parts: Any) -> None:
    row = _rows(policy, parts)[2]
    with pytest.raises(ValueError, match="do not match"):
        collate([ScoredRow(row.ids, row.own, row.images[:1])], policy.processor)


def test_the_first_token_of_a_row_cannot_be_scored(policy: Any) -> None:
    batch = collate([ScoredRow(np.array([70, 71]), np.array([True, True]), ())], policy.processor)
    with pytest.raises(ValueError, match="first token"):
        token_logprobs(policy.model, batch, ())
