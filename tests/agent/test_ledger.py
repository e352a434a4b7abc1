"""How tokens are counted."""

from __future__ import annotations

import numpy as np

from vlagent.agent.ledger import Ledger
from vlagent.chat.base import ChatReply, ImagePart, Message, TextPart
from vlagent.types import ImageRef, Tokens, Usage

REF = ImageRef(path="x.png", width=640, height=320)


def ledger(**changes) -> Ledger:
    return Ledger(**{"limit": 1000, "factor": 32, "turn_limit": 300, **changes})


def test_a_picture_costs_its_patches_and_its_marks():
    message = Message("user", (ImagePart(REF, (640, 320)),))
    bare = ledger().estimate([Message("user")])
    assert ledger().estimate([message]) == bare + 20 * 10 + 2
    assert ledger(factor=16).estimate([message]) == bare + 40 * 20 + 2


def test_text_is_estimated_by_its_bytes_unless_the_model_can_count():
    message = Message("user", (TextPart("a" * 350),))
    bare = ledger().estimate([Message("user")])
    assert ledger().estimate([message]) == bare + 100
    assert ledger(count_text=lambda text: 7).estimate([message]) == bare + 7


def test_the_models_own_count_replaces_the_estimate():
    count = ledger()
    count.add([Message("user", (TextPart("a" * 3500),))])
    assert "estimated" in count.describe()
    count.record(ChatReply("so", usage=Usage(prompt_tokens=40, completion_tokens=2)))
    assert (count.total, count.granted) == (42, 300)
    assert "counted by the model" in count.describe()


def test_without_usage_the_sampled_tokens_count_and_else_the_text():
    sampled, text = ledger(), ledger()
    sampled.record(ChatReply("a" * 350, tokens=Tokens(np.arange(3), None)))
    text.record(ChatReply("a" * 350))
    assert (sampled.total, text.total) == (3, 100)


def test_room_is_kept_for_an_answer():
    count = ledger(total=900)
    assert count.granted == 100
    assert not count.exhausted
    assert not count.fits([Message("user", (TextPart("a" * 350),))])
    assert count.fits([Message("user", (TextPart("a" * 35),))])
    assert ledger(total=960).exhausted
    assert not ledger(total=960, turn_limit=20).exhausted
