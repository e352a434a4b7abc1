"""One reply in the making, and when it is complete. Shape letters: L = prompt tokens, N = new tokens."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.model.chatml import Vocabulary
from vlagent.model.decoder import Extension
from vlagent.model.load import Pixels
from vlagent.model.sampling import Uniforms
from vlagent.model.slots import Keys
from vlagent.types import Ids

Finish = Literal["stop", "length"]


@dataclass(eq=False)
class Request:
    """A prompt, the reply so far, and the caller that waits for it."""

    ids: Ids
    """[L]"""
    keys: Keys
    """[L]; `ids` with picture contents in place of placeholders."""
    positions: NDArray[np.int64]
    """[3, L]"""
    after: int
    """Position of the first new token."""
    pictures: list[tuple[Pixels, tuple[int, int]]]
    """Each with the (start, stop) of its placeholders."""
    params: TokenParams
    limit: int
    """New tokens at most."""
    future: Future[TokenOutput] = field(default_factory=Future)
    written: list[int] = field(default_factory=list)
    """[N]"""
    logprobs: list[float] = field(default_factory=list)
    """[N]"""
    finish: Finish | None = None

    def __post_init__(self) -> None:
        self._uniforms = Uniforms(self.params.key)

    def uniform(self) -> float:
        """The random number of the next token."""
        return self._uniforms.at(len(self.written)) if self.params.temperature > 0 else 0.0

    def next_position(self) -> int:
        """Where the last written token stands."""
        return self.after + len(self.written) - 1

    def extension(self, start: int) -> Extension:
        """What is left of the prompt after its first `start` tokens."""
        images = [(pixels, max(0, start - a)) for pixels, (a, b) in self.pictures if b > start]
        return Extension(start, self.ids[start:], self.positions[:, start:], images)

    def output(self) -> TokenOutput:
        assert self.finish is not None
        return TokenOutput(np.asarray(self.written, np.int64), np.asarray(self.logprobs, np.float32), self.finish)


class StopWatch:
    """Tells when a reply is complete."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._eos = frozenset(vocabulary.eos)
        self._pieces: dict[int, str] = {}

    def finish(self, written: Sequence[int], stop: Sequence[str], limit: int) -> Finish | None:
        """The reason to end after the last written token, if there is one."""
        if written[-1] in self._eos or any(self._completes(written, text) for text in stop if text):
            return "stop"
        return "length" if len(written) >= limit else None

    def _completes(self, written: Sequence[int], text: str) -> bool:
        """Whether the last token completes `text`. Most tokens do not hold its last character: a cheap no."""
        piece = self._pieces.get(written[-1])
        if piece is None:
            piece = self._pieces.setdefault(written[-1], self._vocabulary.decode(written[-1:]))
        if text[-1] not in piece and "\ufffd" not in piece:
            return False
        return text in self._vocabulary.decode(written[-len(text.encode()) - 1 :])
