from __future__ import annotations

import numpy as np
import torch

from vlagent.chat.tokens import TokenParams
from vlagent.model.sampling import Uniforms, draw

LOGITS = torch.log(torch.tensor([0.05, 0.4, 0.3, 0.2, 0.05]))


def _frequencies(
    params: TokenParams, n: int = 4000, banned: tuple[int, ...] = (), written: tuple[int, ...] = ()
) -> list[float]:
    uniforms = ((np.arange(n) + 0.5) / n).tolist()
    ids, _ = draw(LOGITS.expand(n, -1), [params] * n, [written] * n, uniforms, banned)
    return (np.bincount(ids, minlength=5) / n).tolist()


def test_tokens_come_with_their_probabilities() -> None:
    assert np.allclose(_frequencies(TokenParams(temperature=1.0)), [0.05, 0.4, 0.3, 0.2, 0.05], atol=1e-3)


def test_temperature_sharpens() -> None:
    p = np.array([0.05, 0.4, 0.3, 0.2, 0.05]) ** 2
    assert np.allclose(_frequencies(TokenParams(temperature=0.5)), p / p.sum(), atol=1e-3)


def test_temperature_zero_takes_the_most_likely() -> None:
    assert _frequencies(TokenParams(temperature=0.0), n=10) == [0, 1, 0, 0, 0]


def test_a_banned_token_is_never_drawn_not_even_at_the_edges() -> None:
    assert np.allclose(
        _frequencies(TokenParams(temperature=1.0), banned=(0, 4)), [0, 4 / 9, 3 / 9, 2 / 9, 0], atol=1e-3
    )
    ids, _ = draw(LOGITS[None].expand(2, -1), [TokenParams(temperature=1.0)] * 2, [()] * 2, [0.0, 1.0], (0, 4))
    assert ids == [1, 3]


def test_top_k_keeps_the_k_most_likely() -> None:
    assert np.allclose(_frequencies(TokenParams(temperature=1.0, top_k=2)), [0, 4 / 7, 3 / 7, 0, 0], atol=1e-3)


def test_top_p_keeps_the_fewest_that_reach_it() -> None:
    assert np.allclose(_frequencies(TokenParams(temperature=1.0, top_p=0.6)), [0, 4 / 7, 3 / 7, 0, 0], atol=1e-3)
    assert _frequencies(TokenParams(temperature=1.0, top_p=0.01)) == [0, 1, 0, 0, 0]


def test_top_p_applies_to_what_top_k_left() -> None:
    both = TokenParams(temperature=1.0, top_k=3, top_p=0.7)
    assert np.allclose(_frequencies(both), [0, 4 / 7, 3 / 7, 0, 0], atol=1e-3)


def test_presence_penalty_lowers_what_was_written_but_not_the_reported_logprob() -> None:
    params = TokenParams(temperature=1.0, presence_penalty=100.0)
    assert _frequencies(params, written=(1, 1))[1] == 0
    ids, logprobs = draw(LOGITS[None], [params], [(1,)], [0.5], ())
    assert np.isclose(logprobs[0], LOGITS[ids[0]].item(), atol=1e-5)


def test_each_row_has_its_own_settings_and_its_logprob_is_at_its_temperature() -> None:
    params = [TokenParams(temperature=0.0), TokenParams(temperature=0.5)]
    ids, logprobs = draw(LOGITS.expand(2, -1), params, [(), ()], [0.99, 0.99], ())
    assert ids == [1, 3]
    p = torch.softmax(LOGITS / 0.5, -1)
    assert np.allclose(logprobs, [np.log(0.4), torch.log(p[3]).item()], atol=1e-5)


def test_draws_depend_on_key_and_position_alone() -> None:
    a, b = Uniforms((0, "s", 1, 2)), Uniforms((0, "s", 1, 2))
    forwards = [a.at(i) for i in range(600)]
    backwards = [b.at(i) for i in reversed(range(600))][::-1]
    assert forwards == backwards
    assert len(set(forwards)) == 600
    assert Uniforms((0, "s", 1, 3)).at(0) != forwards[0]
    assert all(0 <= u < 1 for u in forwards)
