"""Tokens a second of in-process generation at 64 conversations, against one-by-one `transformers.generate`.

    python benchmarks/generation.py

The same tiny Qwen3-VL, the same prompts with a picture each, one torch thread for both, in turn within one run; medians
over rounds. `ratio` is engine over generate. `logprob_difference` is the largest difference between the sampler's and
the trainer's log-probabilities over three-turn conversations with five pictures, a number an architecture.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vlagent.chat.base import ChatRequest, ImagePart, Message, Sampling, TextPart
from vlagent.chat.tokens import TokenParams
from vlagent.model.chatml import Rendered
from vlagent.model.engine import EngineOptions, InProcessEngine
from vlagent.model.load import Policy
from vlagent.model.local_chat import LocalChat
from vlagent.model.logprobs import ScoredRow, collate, stack_pixels, token_logprobs
from vlagent.model.tiny import PROTOCOL_PIECES, TinySpec, make_policy
from vlagent.types import ImageRef

CONCURRENCY = 64
NEW_TOKENS = 48
ONE_BY_ONE = 6
ROUNDS = 3
SIZES = ((96, 96), (96, 48), (64, 80))


def measure() -> dict[str, Any]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        parts = pictures(Path(folder))
        speed = tokens_per_second(parts)
        agreement = {name: logprob_difference(name, parts) for name in ("qwen3_vl", "qwen2_5_vl")}
    torch.set_num_threads(threads)
    return {**speed, "logprob_difference": agreement}


def pictures(folder: Path) -> list[ImagePart]:
    """Noise: what is in them does not matter here."""
    random = np.random.default_rng(0)
    parts = []
    for i, (width, height) in enumerate(SIZES):
        path = folder / f"{i}.png"
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
        parts.append(ImagePart(ImageRef(path=str(path), width=width, height=height), (width, height)))
    return parts


def tokens_per_second(parts: list[ImagePart]) -> dict[str, Any]:
    numbers = tuple(str(number) for number in range(1000))
    policy = make_policy(TinySpec(pieces=PROTOCOL_PIECES + numbers))
    prompts = [prompt(policy, parts, i) for i in range(CONCURRENCY)]
    ours, theirs = [], []
    with InProcessEngine(policy, EngineOptions(max_batch=CONCURRENCY, threads=1)) as engine:
        for number in range(ROUNDS + 1):
            ours.append(engine_rate(engine, prompts, number))
            theirs.append(generate_rate(policy, prompts[:ONE_BY_ONE]))
    engine_median, generate_median = (statistics.median(rates[1:]) for rates in (ours, theirs))
    return {
        "concurrency": CONCURRENCY,
        "engine_tokens_per_s": round(engine_median, 1),
        "generate_tokens_per_s": round(generate_median, 1),
        "ratio": round(engine_median / generate_median, 2),
    }


def prompt(policy: Policy, parts: list[ImagePart], i: int) -> Rendered:
    text = f"Question {i}: what was founded in {i}, and where does it stand?"
    system = Message("system", (TextPart("You look at a picture and call tools before you answer."),))
    return policy.processor.renderer.render([system, Message("user", (parts[i % len(parts)], TextPart(text)))])


def engine_rate(engine: InProcessEngine, prompts: list[Rendered], number: int) -> float:
    async def run() -> int:
        outputs = await asyncio.gather(
            *(
                engine.generate(p.ids, p.images, TokenParams(1.0, max_tokens=NEW_TOKENS, key=(number, i)))
                for i, p in enumerate(prompts)
            )
        )
        return sum(len(output.ids) for output in outputs)

    with engine.paused():
        pass  # nothing of the last round is reused
    started = time.perf_counter()
    return asyncio.run(run()) / (time.perf_counter() - started)


def generate_rate(policy: Policy, prompts: list[Rendered]) -> float:
    vocabulary, written = policy.processor.vocabulary, 0
    started = time.perf_counter()
    for p in prompts:
        ids = torch.from_numpy(p.ids)[None]
        values, grid = stack_pixels([policy.processor.load(part) for part in p.images])
        out = policy.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            pixel_values=values,
            image_grid_thw=grid,
            mm_token_type_ids=(ids == vocabulary.ids["<|image_pad|>"]).int(),
            max_new_tokens=NEW_TOKENS,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            suppress_tokens=list(vocabulary.banned),
        )
        written += out.shape[1] - ids.shape[1]
    return written / (time.perf_counter() - started)


def logprob_difference(architecture: Any, parts: list[ImagePart]) -> float:
    policy = make_policy(TinySpec(architecture=architecture))

    async def run(chat: LocalChat) -> list[Rendered]:
        return await asyncio.gather(*(conversation(chat, parts, i) for i in range(16)))

    with InProcessEngine(policy, EngineOptions(max_batch=8, threads=1)) as engine:
        rows = asyncio.run(run(LocalChat(policy.name, policy.processor.renderer, engine)))
    batch = collate([ScoredRow(row.ids, row.own, row.images) for row in rows], policy.processor)
    with torch.no_grad():
        trained = token_logprobs(policy.model, batch, policy.processor.vocabulary.banned, 0.8).numpy()
    sampled = [row.logprobs for row in rows if row.logprobs is not None]
    assert len(sampled) == len(rows)
    return float(max(np.abs(trained[i, : len(one)] - one).max() for i, one in enumerate(sampled)))


async def conversation(chat: LocalChat, parts: list[ImagePart], i: int) -> Rendered:
    messages = [Message("user", (parts[i % len(parts)], TextPart(f"question {i}")))]
    for turn in range(3):
        request = ChatRequest(tuple(messages), Sampling(temperature=0.8, max_tokens=24), key=(0, str(i), 0, turn))
        reply = await chat.complete(request)
        messages.append(Message("assistant", (TextPart(reply.text),), tokens=reply.tokens))
        seen = (parts[(i + turn) % len(parts)], TextPart(" and "), parts[(i + turn + 1) % len(parts)])
        messages.append(Message("user", seen))
    return chat.renderer.render(messages[:-1], reply=False)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
