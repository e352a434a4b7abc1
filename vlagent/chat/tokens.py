"""The seam under a trainable policy: token ids and pictures in, token ids and log-probabilities out.

Engines of this kind: in-process (`model/engine.py`) and, over HTTP, vLLM and SGLang. A renderer plus an engine is a
`ChatModel`. Shape letters: L = prompt tokens, N = new tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from vlagent.chat.base import ImagePart
from vlagent.randomness import Key
from vlagent.types import Ids, Logprobs


@dataclass(frozen=True)
class TokenParams:
    """How new tokens are drawn and when to stop."""

    temperature: float = 0.0
    """0 takes the most likely token."""
    top_p: float | None = None
    top_k: int | None = None
    presence_penalty: float | None = None
    max_tokens: int = 8192
    stop: tuple[str, ...] = ()
    """Generation ends with the token that completes any of these strings; that token is part of the ids."""
    key: Key = ()
    """(run seed, sample id, rollout, turn); the draw of position p depends on this key and p alone."""


@dataclass(frozen=True, eq=False)
class TokenOutput:
    """What an engine sampled."""

    ids: Ids
    """[N]; a sampled end-of-turn token is included."""
    logprobs: Logprobs
    """[N]; of the softmax of (logits without banned tokens) / temperature, before penalties, top-p and top-k
    (temperature 0 counts as 1). The trainer's log-probabilities are the same function of the same ids."""
    finish_reason: Literal["stop", "length"]


class TokenEngine(Protocol):
    """Raises a typed `errors.ServiceError` when it cannot answer. Cancelling the await frees its place."""

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput: ...
