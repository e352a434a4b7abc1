from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from tests.model.stock import stock_logits, stock_logprobs
from vlagent.chat.base import ChatRequest, Message, Sampling, TextPart
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError, ServiceError, UserError
from vlagent.model.engine import EngineOptions, InProcessEngine
from vlagent.model.local_chat import LocalChat
from vlagent.model.logprobs import ScoredRow, collate, token_logprobs

OPTIONS = EngineOptions(max_batch=6, max_context=512, threads=1)
TURNS = 3


def _prompt(policy: Any, parts: Any, i: int = 0) -> Any:
    shown = (parts[i % 4], TextPart(f"question {i}?"))
    return policy.processor.renderer.render([Message("system", (TextPart("Look."),)), Message("user", shown)])


async def _ask(engine: InProcessEngine, prompt: Any, **params: Any) -> TokenOutput:
    return await engine.generate(prompt.ids, prompt.images, TokenParams(**params))


async def _until_written(engine: InProcessEngine, tokens: int) -> None:
    while engine.stats.written < tokens:  # noqa: ASYNC110 - the engine is another thread
        await asyncio.sleep(0.01)


async def _episode(chat: LocalChat, parts: Any, i: int, temperature: float) -> list[Message]:
    """Three turns, a picture in the question and two in each observation."""
    first = (parts[i % 4], TextPart(f"question {i}?"))
    messages = [Message("system", (TextPart("Look at the picture."),)), Message("user", first)]
    for turn in range(TURNS):
        sampling = Sampling(temperature=temperature, max_tokens=12)
        reply = await chat.complete(ChatRequest(tuple(messages), sampling, key=(0, f"s{i}", 0, turn)))
        messages.append(Message("assistant", (TextPart(reply.text),), tokens=reply.tokens))
        seen = (TextPart("seen "), parts[(i + turn) % 4], TextPart(" and "), parts[(i + turn + 1) % 4])
        messages.append(Message("user", seen))
    return messages[:-1]


async def _episodes(
    policy: Any, parts: Any, options: EngineOptions, order: list[int], together: bool
) -> dict[int, Any]:
    with InProcessEngine(policy, options) as engine:
        chat = LocalChat("tiny", policy.processor.renderer, engine)
        if together:
            done = await asyncio.gather(*(_episode(chat, parts, i, 0.9) for i in order))
        else:
            done = [await _episode(chat, parts, i, 0.9) for i in order]
    return {i: policy.processor.renderer.render(m, reply=False) for i, m in zip(order, done, strict=True)}


async def test_sampler_trainer_and_stock_model_agree_over_turns_with_many_pictures(policy: Any, parts: Any) -> None:
    rows = await _episodes(policy, parts, OPTIONS, list(range(10)), together=True)
    batch = collate([ScoredRow(row.ids, row.own, row.images) for row in rows.values()], policy.processor)
    with torch.no_grad():
        trained = token_logprobs(policy.model, batch, policy.processor.vocabulary.banned, 0.9).numpy()
    for i, row in rows.items():
        assert len(row.images) == 1 + 2 * (TURNS - 1)
        assert np.abs(trained[i, : len(row.ids)] - row.logprobs).max() < 1e-4
        stock = stock_logprobs(policy, row.ids, row.images, 0.9)
        assert np.abs(np.where(row.own, stock, 0.0) - row.logprobs).max() < 1e-4


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
async def test_each_attention_that_is_accepted_gives_the_same_logprobs(policy: Any, parts: Any, attention: str) -> None:
    prompt = _prompt(policy, parts)
    policy.model.set_attn_implementation(attention)
    try:
        with InProcessEngine(policy, OPTIONS) as engine:
            output = await _ask(engine, prompt, temperature=1.0, max_tokens=8, key=(4,))
    finally:
        policy.model.set_attn_implementation("sdpa")
    ids = np.concatenate((prompt.ids, output.ids))
    stock = stock_logprobs(policy, ids, prompt.images, 1.0)[len(prompt.ids) :]
    assert np.abs(stock - output.logprobs).max() < 1e-4


async def test_greedy_ids_are_the_argmax_of_the_stock_model(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    with InProcessEngine(policy, OPTIONS) as engine:
        output = await _ask(engine, prompt, max_tokens=10)
    ids = list(prompt.ids)
    for token in output.ids:
        logits = stock_logits(policy, np.array(ids), prompt.images)[-1]
        logits[list(policy.processor.vocabulary.banned)] = -torch.inf
        assert logits.argmax().item() == token
        ids.append(token)


async def test_what_else_runs_changes_no_reply(policy: Any, parts: Any) -> None:
    together = await _episodes(policy, parts, OPTIONS, list(range(8)), together=True)
    few_slots = OPTIONS.model_copy(update={"max_batch": 2, "prefill_chunk": 16, "prefill_tokens": 64})
    alone = await _episodes(policy, parts, few_slots, [7, 4, 0, 5], together=False)
    for i, row in alone.items():
        assert row.ids.tolist() == together[i].ids.tolist()
        assert np.abs(row.logprobs - together[i].logprobs).max() < 1e-4


async def test_with_deterministic_batches_replies_are_equal_to_the_bit(policy: Any, parts: Any) -> None:
    fixed = OPTIONS.model_copy(update={"deterministic_batches": True})
    together = await _episodes(policy, parts, fixed, list(range(8)), together=True)
    alone = await _episodes(policy, parts, fixed, [5, 2, 7], together=False)
    for i, row in alone.items():
        assert row.ids.tolist() == together[i].ids.tolist()
        assert row.logprobs.tobytes() == together[i].logprobs.tobytes()


async def test_the_key_decides_the_draws(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    with InProcessEngine(policy, OPTIONS) as engine:
        a, b, c = await asyncio.gather(
            *(_ask(engine, prompt, temperature=1.0, max_tokens=12, key=key) for key in ((1, 0), (1, 0), (1, 1)))
        )
    assert a.ids.tolist() == b.ids.tolist() != c.ids.tolist()


async def test_a_prompt_is_computed_once_for_its_group(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    with InProcessEngine(policy, OPTIONS) as engine:
        await asyncio.gather(*(_ask(engine, prompt, temperature=1.0, max_tokens=3, key=(g,)) for g in range(6)))
        assert engine.stats.computed == len(prompt.ids) + 5
        assert engine.stats.reused == 5 * (len(prompt.ids) - 1)


async def test_a_system_prompt_that_different_questions_share_is_computed_once(policy: Any, parts: Any) -> None:
    system = Message("system", (TextPart("Look closely at each picture before you say a word."),))
    prompts = [
        policy.processor.renderer.render([system, Message("user", (TextPart(question),))])
        for question in ("What?", "At which place?", "In which year?", "By whom?")
    ]
    with InProcessEngine(policy, OPTIONS) as engine:
        await asyncio.gather(*(_ask(engine, prompt, max_tokens=2) for prompt in prompts))
        shared = len(policy.processor.renderer.render([system], reply=False).ids) + 2
        assert engine.stats.reused == 3 * shared


async def test_the_next_turn_computes_only_what_is_new(policy: Any, parts: Any) -> None:
    with InProcessEngine(policy, OPTIONS) as engine:
        chat = LocalChat("tiny", policy.processor.renderer, engine)
        messages = await _episode(chat, parts, 0, 0.9)
        total = len(policy.processor.renderer.render(messages[:-1]).ids)
        written = sum(len(m.tokens.ids) for m in messages[:-1] if m.tokens)
        assert engine.stats.computed == total - (written - (TURNS - 1))


async def test_equal_text_with_another_picture_shares_nothing_beyond_it(policy: Any, parts: Any) -> None:
    a, b = _prompt(policy, parts, 0), _prompt(policy, parts, 0)
    b = type(b)(b.ids, b.own, b.logprobs, (parts[3],))
    with InProcessEngine(policy, OPTIONS) as engine:
        await _ask(engine, a, max_tokens=8)
        after_a = await _ask(engine, b, max_tokens=8)
        start = int(np.flatnonzero(b.ids == policy.processor.vocabulary.ids["<|image_pad|>"])[0])
        assert engine.stats.reused == start
    with InProcessEngine(policy, OPTIONS) as engine:
        fresh = await _ask(engine, b, max_tokens=8)
    assert after_a.ids.tolist() == fresh.ids.tolist()
    assert np.abs(after_a.logprobs - fresh.logprobs).max() < 1e-4


async def test_new_weights_use_nothing_of_the_old_cache(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    weight = policy.model.model.language_model.layers[0].self_attn.v_proj.weight
    with InProcessEngine(policy, OPTIONS) as engine:
        before = await _ask(engine, prompt, max_tokens=6)
        try:
            with engine.paused(), torch.no_grad():
                weight.mul_(-1)
            reused = engine.stats.reused
            after = await _ask(engine, prompt, max_tokens=6)
            assert engine.stats.reused == reused
            ids = np.concatenate((prompt.ids, after.ids))
            stock = stock_logprobs(policy, ids, prompt.images, 1.0)[len(prompt.ids) :]
        finally:
            with torch.no_grad():
                weight.mul_(-1)
    assert np.abs(stock - after.logprobs).max() < 1e-4
    assert np.abs(before.logprobs - after.logprobs).max() > 1e-3


async def test_a_stop_string_ends_the_reply_with_the_token_that_completes_it(policy: Any, parts: Any) -> None:
    prompt, vocabulary = _prompt(policy, parts), policy.processor.vocabulary
    with InProcessEngine(policy, OPTIONS) as engine:
        free = await _ask(engine, prompt, temperature=1.0, max_tokens=40, key=(3,))
        text = vocabulary.decode(free.ids[4:6])
        cut = await _ask(engine, prompt, temperature=1.0, max_tokens=40, key=(3,), stop=("never", text))
    assert cut.finish_reason == "stop"
    assert len(cut.ids) <= 6 < len(free.ids)
    assert vocabulary.decode(cut.ids).endswith(text)
    assert cut.ids.tolist() == free.ids[: len(cut.ids)].tolist()


async def test_max_tokens_and_the_context_end_a_reply_with_reason_length(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    small = OPTIONS.model_copy(update={"max_context": len(prompt.ids) + 5})
    with InProcessEngine(policy, small) as engine:
        short, full = await asyncio.gather(_ask(engine, prompt, max_tokens=2), _ask(engine, prompt, max_tokens=99))
        assert (short.finish_reason, len(short.ids)) == ("length", 2)
        assert (full.finish_reason, len(full.ids)) == ("length", 5)
    tiny = InProcessEngine(policy, OPTIONS.model_copy(update={"max_context": 10}))
    with tiny, pytest.raises(PermanentError, match="does not fit max_context 10"):
        await _ask(tiny, prompt)


async def test_the_turn_end_token_ends_a_reply_and_is_part_of_it(policy: Any, parts: Any) -> None:
    prompt, end = _prompt(policy, parts), policy.processor.vocabulary.eos[0]
    options = OPTIONS.model_copy(update={"max_context": 4096})
    with InProcessEngine(policy, options) as engine:
        outputs = await asyncio.gather(
            *(_ask(engine, prompt, temperature=2.0, max_tokens=400, key=(k,)) for k in range(6))
        )
    ended = [output for output in outputs if output.finish_reason == "stop"]
    assert ended
    assert all(output.ids[-1] == end and end not in output.ids[:-1] for output in ended)


async def test_a_cancelled_request_frees_its_slot(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    one = OPTIONS.model_copy(update={"max_batch": 1, "max_context": 100_000})
    with InProcessEngine(policy, one) as engine:
        endless = asyncio.create_task(_ask(engine, prompt, max_tokens=90_000))
        await _until_written(engine, 3)
        waiting = asyncio.create_task(_ask(engine, prompt, max_tokens=2))
        never = asyncio.create_task(_ask(engine, prompt, max_tokens=2))
        never.cancel()
        endless.cancel()
        assert len((await waiting).ids) <= 2
        assert engine.stats.written < 10_000
        for task in (endless, never):
            with pytest.raises(asyncio.CancelledError):
                await task


async def test_an_attention_that_takes_no_mask_is_the_users_error(policy: Any, parts: Any) -> None:
    config, prompt = policy.model.config, _prompt(policy, parts)
    before = config._attn_implementation
    try:
        config._attn_implementation = "flash_attention_2"
        with InProcessEngine(policy, OPTIONS) as engine, pytest.raises(UserError, match="needs sdpa or eager"):
            await _ask(engine, prompt)
    finally:
        config._attn_implementation = before


async def test_an_error_in_the_thread_reaches_every_caller_and_the_engine_goes_on(policy: Any, parts: Any) -> None:
    good = _prompt(policy, parts)
    bad = type(good)(np.array([10**6]), np.array([False]), None, ())
    with InProcessEngine(policy, OPTIONS) as engine:
        results = await asyncio.gather(
            *(_ask(engine, prompt, max_tokens=3) for prompt in (good, bad)), return_exceptions=True
        )
        assert [type(result) for result in results] == [IndexError, IndexError]
        assert len((await _ask(engine, good, max_tokens=3)).ids) == 3


async def test_a_prompt_whose_pictures_disagree_fails_alone(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    with InProcessEngine(policy, OPTIONS) as engine:
        fine = asyncio.create_task(_ask(engine, prompt, max_tokens=3))
        with pytest.raises(ValueError, match="do not match"):
            await engine.generate(prompt.ids, [], TokenParams())
        assert len((await fine).ids) == 3


async def test_closing_answers_those_who_wait_and_refuses_new_ones(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    engine = InProcessEngine(policy, OPTIONS.model_copy(update={"max_context": 100_000}))
    endless = asyncio.create_task(_ask(engine, prompt, max_tokens=90_000))
    await _until_written(engine, 3)
    await asyncio.to_thread(engine.close)
    with pytest.raises(ServiceError, match="closed"):
        await endless
    with pytest.raises(ServiceError, match="closed"):
        await _ask(engine, prompt, max_tokens=1)


async def test_image_slots_and_role_tokens_are_never_sampled(policy: Any, parts: Any) -> None:
    prompt = _prompt(policy, parts)
    with InProcessEngine(policy, OPTIONS) as engine:
        hot = await asyncio.gather(
            *(_ask(engine, prompt, temperature=50.0, max_tokens=100, key=(k,)) for k in range(6))
        )
    assert sum(len(output.ids) for output in hot) > 100
    assert not np.isin(np.concatenate([o.ids for o in hot]), policy.processor.vocabulary.banned).any()
