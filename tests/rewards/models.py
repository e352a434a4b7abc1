"""Small chat models for tests: each reply is computed from the request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import ServiceError
from vlagent.types import Usage


@dataclass
class Says:
    """Replies with the given texts in turn (the last one for ever), or with what a function makes of the request."""

    replies: list[str | ServiceError] | Callable[[ChatRequest], str]
    name: str = "says"
    finish_reason: str = "stop"
    requests: list[ChatRequest] = field(default_factory=list)

    async def complete(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        if callable(self.replies):
            reply = self.replies(request)
        else:
            reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
        if isinstance(reply, ServiceError):
            raise reply
        usage = Usage(prompt_tokens=10, completion_tokens=5, calls=1)
        return ChatReply(reply, self.finish_reason, usage=usage)
