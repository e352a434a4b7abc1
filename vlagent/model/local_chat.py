"""A `ChatModel` made of a renderer and a token engine: the policy that can be trained."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.chat.tokens import TokenEngine, TokenOutput, TokenParams
from vlagent.errors import TransientError, UserError
from vlagent.model.chatml import Rendered, Renderer, Vocabulary
from vlagent.model.engine import EngineOptions, InProcessEngine
from vlagent.model.load import Policy, load_policy
from vlagent.types import Tokens, Usage


class LocalChat:
    """Messages in, messages with their token ids and log-probabilities out."""

    def __init__(self, name: str, renderer: Renderer, engine: TokenEngine) -> None:
        self.name = name
        self.renderer = renderer
        self.engine = engine

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The tokenizer's special tokens, for neutralising outside text."""
        return self.renderer.vocabulary.special_tokens

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, for budgets."""
        return len(self.renderer.vocabulary.encode(text))

    async def complete(self, request: ChatRequest) -> ChatReply:
        """One reply. Raises `UserError` for native tools, which this wire form has not."""
        if request.tools:
            raise UserError(f"model {self.name}: native tool calls need an HTTP endpoint; use a text dialect")
        started = time.perf_counter()
        prompt = self.renderer.render(request.messages)
        output = await self._generate(prompt, request)
        return ChatReply(
            text=reply_text(output.ids, self.renderer.vocabulary, request.stop),
            finish_reason=output.finish_reason,
            tokens=Tokens(output.ids, output.logprobs),
            usage=Usage(prompt_tokens=len(prompt.ids), completion_tokens=len(output.ids), calls=1),
            latency_s=time.perf_counter() - started,
        )

    def close(self) -> None:
        """Release the engine, if it is one that holds something."""
        close = getattr(self.engine, "close", None)
        if close is not None:
            close()

    async def _generate(self, prompt: Rendered, request: ChatRequest) -> TokenOutput:
        sampling = request.sampling
        params = TokenParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            presence_penalty=sampling.presence_penalty,
            max_tokens=sampling.max_tokens,
            stop=request.stop,
            key=request.key,
        )
        try:
            async with asyncio.timeout(request.timeout_s):
                return await self.engine.generate(prompt.ids, prompt.images, params)
        except TimeoutError:
            raise TransientError("model", f"no reply within {request.timeout_s} s") from None


def reply_text(ids: Sequence[int] | np.ndarray, vocabulary: Vocabulary, stop: Sequence[str]) -> str:
    """The text of sampled ids, without the end-of-turn token and before the first stop string."""
    kept = ids[:-1] if len(ids) and int(ids[-1]) in vocabulary.eos else ids
    text = vocabulary.decode(kept)
    cuts = [at for at in (text.find(end) for end in stop if end) if at >= 0]
    return text[: min(cuts)] if cuts else text


def local_chat(policy: Policy, options: EngineOptions | None = None) -> LocalChat:
    """A chat model over a policy in this process; close its engine when done."""
    return LocalChat(policy.name, policy.processor.renderer, InProcessEngine(policy, options))


def open_local(folder: Path, *, device: str = "cpu", dtype: str | None = None) -> LocalChat:
    """A chat model from a checkpoint folder."""
    return local_chat(load_policy(folder, device=device, dtype=dtype))
