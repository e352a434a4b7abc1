"""What making data costs: paid answers that are never asked for twice, and a quote before anything is asked.

A run of episodes resumes by episodes; what a kill interrupts would be played, and paid for, again from its first turn.
Here each answer is on disk before the episode goes on, so that a replay of its turns costs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vlagent.bench.config import EvalConfig
from vlagent.bench.estimate import Estimate, estimate
from vlagent.chat.base import ChatModel, ChatReply, ChatRequest, NativeCall
from vlagent.files import append_jsonl, read_records
from vlagent.search.cache.taped import chat_key
from vlagent.types import FinishReason, Record, Sample, Usage

CALLS = "paid_calls.jsonl"
"""In the folder of a verb."""


class PaidCall(Record):
    """One answer of a model, as it was paid for."""

    key: str
    """Of the model's name and all that it was asked."""
    text: str
    finish_reason: FinishReason = "stop"
    calls: tuple[tuple[str, str, str], ...] = ()
    """(id, name, arguments) of native calls."""
    usage: Usage = Usage()


@dataclass
class Paid:
    """A `ChatModel` whose answers are kept in a file; what is asked again is answered from there.

    An answer that a kill interrupts on the wire cannot be kept: at most as many as are asked for at one time. Token
    ids are not kept. Raises what the inner model raises; failures are not kept.
    """

    inner: ChatModel
    path: Path
    asked: int = 0
    """Answers that this process asked for."""
    spent: Usage = field(default_factory=Usage)
    """Of all answers in the file, those of earlier processes included."""

    def __post_init__(self) -> None:
        self.name = self.inner.name
        self._known = {call.key: call for call in read_records(self.path, PaidCall)}
        for call in self._known.values():
            self._count(call)

    def __getattr__(self, name: str) -> Any:
        """The optional attributes of a model: `special_tokens`, `count_tokens`."""
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __len__(self) -> int:
        return len(self._known)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """As the inner model; at once where it has answered this before."""
        key = key_of(self.name, request)
        known = self._known.get(key)
        if known is not None:
            calls = tuple(NativeCall(*call) for call in known.calls)
            return ChatReply(known.text, known.finish_reason, calls, usage=known.usage)
        self.asked += 1
        reply = await self.inner.complete(request)
        self._keep(key, reply)
        return reply

    def _keep(self, key: str, reply: ChatReply) -> None:
        calls = tuple((call.id, call.name, call.arguments) for call in reply.calls)
        paid = PaidCall(key=key, text=reply.text, finish_reason=reply.finish_reason, calls=calls, usage=reply.usage)
        append_jsonl(self.path, paid)
        self._known[key] = paid
        self._count(paid)

    def _count(self, call: PaidCall) -> None:
        self.spent += call.usage.model_copy(update={"calls": max(1, call.usage.calls)})


def key_of(name: str, request: ChatRequest) -> str:
    """Of the model's name and all that it is asked."""
    return hashlib.sha256(f"{name}\n{chat_key(request)}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Quote(Record):
    """What a verb will ask for at most, before it does."""

    what: str
    """Whose answers: the model's of the episodes, the reviewer's."""
    items: int
    """Episodes or reviews still to do."""
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    """None where no price is set."""
    note: str = ""

    def line(self) -> str:
        """For a person."""
        cost = "no price set (--price)" if self.cost_usd is None else f"about ${self.cost_usd:,.2f}"
        note = f" ({self.note})" if self.note else ""
        tokens = f"{self.prompt_tokens:,} + {self.completion_tokens:,} tokens"
        return f"{self.what}: {self.items:,} to do, about {self.calls:,} calls, {tokens}, {cost}{note}"


def quote_episodes(
    config: EvalConfig, samples: Sequence[Sample], *, done: int = 0, like: Path | None = None, what: str = "episodes"
) -> Quote:
    """The model calls of the episodes that are left, by what such episodes take (`bench.estimate`)."""
    found: Estimate = estimate(config, samples, like)
    left = max(0, found.episodes - done)
    share = left / found.episodes if found.episodes else 0.0
    judged = f"{round(found.judge_calls * share):,} judge calls besides; " if found.judge_calls else ""
    return Quote(
        what=what,
        items=left,
        calls=round(left * found.basis.turns),
        prompt_tokens=round(found.prompt_tokens * share),
        completion_tokens=round(found.completion_tokens * share),
        cost_usd=None if found.cost_usd is None else found.cost_usd * share,
        note=f"{judged}{found.basis.source}: {found.basis.turns:.1f} turns an episode",
    )
