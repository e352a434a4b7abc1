"""The one seam to every model: policy, judge and summariser are all a `ChatModel`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field

from vlagent.randomness import Key
from vlagent.types import FinishReason, ImageRef, Record, Tokens, Usage


class Sampling(Record):
    """How tokens are drawn. None leaves the engine's own default."""

    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=-1)
    """-1 and 0 are all tokens, as engines take it."""
    presence_penalty: float | None = Field(default=None, allow_inf_nan=False)
    max_tokens: int = Field(default=8192, ge=1)
    """New tokens of one reply."""


@dataclass(frozen=True)
class TextPart:
    """Plain text of a message."""

    text: str


@dataclass(frozen=True)
class ImagePart:
    """A picture of a message: where it is, and the size (width, height) in pixels at which the model sees it."""

    ref: ImageRef
    view: tuple[int, int]


Part = TextPart | ImagePart


@dataclass(frozen=True)
class NativeCall:
    """A tool call in the endpoint's own form (OpenAI `tool_calls`)."""

    id: str
    name: str
    arguments: str
    """JSON text, as the model wrote it."""


@dataclass(frozen=True, eq=False)
class Message:
    """One message of a conversation. An assistant message keeps the tokens that it was sampled as."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: tuple[Part, ...] = ()
    calls: tuple[NativeCall, ...] = ()
    call_id: str | None = None
    """Of a tool message: the native call that it answers."""
    tokens: Tokens | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))


@dataclass(frozen=True)
class ChatRequest:
    """Everything that one completion needs."""

    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    """The reply ends before any of these strings (finish reason `stop`)."""
    tools: tuple[dict[str, Any], ...] = ()
    """Native tool schemas (OpenAI form); empty in text dialects."""
    key: Key = ()
    """(run seed, sample id, rollout, turn): engines that take a seed derive it from this."""
    timeout_s: float | None = None


@dataclass(frozen=True, eq=False)
class ChatReply:
    """What the model wrote."""

    text: str
    finish_reason: FinishReason = "stop"
    calls: tuple[NativeCall, ...] = ()
    tokens: Tokens | None = None
    usage: Usage = field(default_factory=Usage)
    latency_s: float = 0.0
    retries: int = 0


class ChatModel(Protocol):
    """A model behind messages. Raises `errors.ServiceError` (typed) when it cannot answer."""

    name: str

    async def complete(self, request: ChatRequest) -> ChatReply: ...
