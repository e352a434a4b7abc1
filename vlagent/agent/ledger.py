"""How many tokens a trajectory holds: counted where the model reports it, estimated where it does not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vlagent.chat.base import ChatReply, Message, Part, TextPart

BYTES_PER_TOKEN = 3.5
"""Of UTF-8 text, on the careful side for English and CJK with the vocabularies of Qwen."""
MESSAGE_TOKENS = 6
"""Role and turn marks around a message."""
PICTURE_MARKS = 2
"""Start and end of an image slot."""
ANSWER_TOKENS = 64
"""Room without which no turn is worth starting."""


@dataclass
class Ledger:
    """Tokens of one trajectory so far, pictures included.

    After a reply with `usage.prompt_tokens` the total is the model's own count; what is added since then is estimated.
    """

    limit: int
    factor: int
    """Pixels a side of one image token (patch x merge)."""
    turn_limit: int
    count_text: Callable[[str], int] | None = None
    """The tokenizer's own count, where the chat model has one (`count_tokens`)."""
    total: int = 0
    measured: bool = False

    @property
    def granted(self) -> int:
        """New tokens that the next turn may have."""
        return min(self.turn_limit, self.limit - self.total)

    @property
    def exhausted(self) -> bool:
        """Whether too little is left to write an answer."""
        return self.granted < min(ANSWER_TOKENS, self.turn_limit)

    def fits(self, messages: Sequence[Message]) -> bool:
        """Whether an answer could still follow these messages."""
        return self.total + self.estimate(messages) + min(ANSWER_TOKENS, self.turn_limit) <= self.limit

    def add(self, messages: Sequence[Message]) -> None:
        self.total += self.estimate(messages)

    def record(self, reply: ChatReply) -> None:
        """Take in a reply, and the model's own count of the prompt where there is one."""
        written = reply.usage.completion_tokens or (len(reply.tokens.ids) if reply.tokens else self.of_text(reply.text))
        if reply.usage.prompt_tokens:
            self.total, self.measured = reply.usage.prompt_tokens, True
        self.total += written

    def estimate(self, messages: Sequence[Message]) -> int:
        return sum(MESSAGE_TOKENS + sum(self._part(part) for part in message.parts) for message in messages)

    def describe(self) -> str:
        """For a person: the count, and whether it is the model's own."""
        how = "counted by the model" if self.measured else "estimated"
        return f"{self.total} of {self.limit} tokens, {how}"

    def _part(self, part: Part) -> int:
        if isinstance(part, TextPart):
            return self.of_text(part.text)
        width, height = part.view
        return math.ceil(width / self.factor) * math.ceil(height / self.factor) + PICTURE_MARKS

    def of_text(self, text: str) -> int:
        if self.count_text is not None:
            return self.count_text(text)
        return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
