from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vlagent.chat.base import ChatRequest, ImagePart, Message, Sampling, TextPart
from vlagent.errors import ServiceError, TransientError, UserError
from vlagent.model.engine import EngineOptions
from vlagent.model.local_chat import local_chat, open_local, reply_text
from vlagent.types import ImageRef


def _request(parts: Any, **more: Any) -> ChatRequest:
    user = Message("user", (parts[0], TextPart("What?")))
    return ChatRequest((user,), Sampling(temperature=1.0, max_tokens=6), key=(0, "a", 0, 0), **more)


async def test_a_reply_has_text_tokens_and_usage(policy: Any, parts: Any) -> None:
    chat = local_chat(policy, EngineOptions(threads=1))
    reply = await chat.complete(_request(parts))
    chat.close()
    assert chat.name == policy.name
    assert reply.tokens is not None
    assert reply.tokens.logprobs is not None
    assert reply.text == reply_text(reply.tokens.ids, policy.processor.vocabulary, ())
    assert reply.usage.completion_tokens == len(reply.tokens.ids) == len(reply.tokens.logprobs)
    assert reply.usage.prompt_tokens == len(policy.processor.renderer.render(_request(parts).messages).ids)


def test_the_text_ends_before_the_turn_end_and_before_the_first_stop_string(policy: Any) -> None:
    vocabulary = policy.processor.vocabulary
    ids = np.array([*vocabulary.encode("<answer>7</answer>more"), vocabulary.eos[0]])
    assert reply_text(ids, vocabulary, ()) == "<answer>7</answer>more"
    assert reply_text(ids, vocabulary, ("more", "</answer>")) == "<answer>7"


def test_tokens_are_counted_by_the_tokenizer(policy: Any) -> None:
    assert local_chat(policy).count_tokens("<answer>ab</answer>") == 4


async def test_native_tools_are_refused_with_the_fix(policy: Any, parts: Any) -> None:
    chat = local_chat(policy)
    with pytest.raises(UserError, match="text dialect"):
        await chat.complete(_request(parts, tools=({"type": "function"},)))


async def test_a_reply_that_takes_too_long_is_a_transient_error(policy: Any, parts: Any) -> None:
    chat = local_chat(policy, EngineOptions(threads=1))
    with pytest.raises(TransientError, match=r"within 1e-06 s"):
        await chat.complete(_request(parts, timeout_s=1e-6))
    chat.close()


async def test_a_picture_that_is_gone_is_a_service_error(policy: Any, tmp_path: Path) -> None:
    gone = ImagePart(ImageRef(path=str(tmp_path / "gone.png"), width=96, height=96), (96, 96))
    chat = local_chat(policy, EngineOptions(threads=1))
    with pytest.raises(ServiceError, match="image"):
        await chat.complete(_request([gone]))
    chat.close()


def test_the_special_tokens_for_neutralising_are_the_tokenizers(policy: Any) -> None:
    assert {"<|im_start|>", "<|im_end|>", "<|image_pad|>"} <= set(local_chat(policy).special_tokens)


async def test_a_saved_policy_chats_the_same(policy: Any, parts: Any, tmp_path: Path) -> None:
    policy.save(tmp_path / "saved")
    again, chat = open_local(tmp_path / "saved"), local_chat(policy)
    a, b = await chat.complete(_request(parts)), await again.complete(_request(parts))
    chat.close()
    again.close()
    assert again.name == "saved"
    assert a.text == b.text
