"""Messages <-> token ids in the ChatML form of Qwen-VL models.

Sampled assistant turns are spliced in as the ids that they were sampled as, never re-tokenised; only what is new
(observations, turn ends) is tokenised, so the ids of one turn are a prefix of the ids of the next. Text is encoded with
special tokens switched off: no text can become a turn, a role or an image slot. Shape letter: L = tokens of a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlagent.chat.base import ImagePart, Message, TextPart
from vlagent.types import Ids, Logprobs

ROLE_TOKENS = ("<|im_start|>", "<|im_end|>")
IMAGE_TOKENS = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
_NEVER_SAMPLED = (
    "<|im_start|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The part of a tokenizer that rendering and sampling need."""

    tokenizer: Any
    """A `tokenizers.Tokenizer` of our own, with `encode_special_tokens` set: specials in text stay text."""
    ids: dict[str, int]
    """Special token -> id, every special token of the tokenizer."""
    eos: tuple[int, ...]
    """Ids that end a reply; `<|im_end|>` is the first."""
    pad: int

    def encode(self, text: str) -> tuple[int, ...]:
        return _encode(self.tokenizer, text)

    def decode(self, ids: Sequence[int] | Ids) -> str:
        """The text of ids; special tokens are written out."""
        return str(self.tokenizer.decode([int(i) for i in ids], skip_special_tokens=False))

    @property
    def size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return tuple(self.ids)

    @property
    def banned(self) -> tuple[int, ...]:
        """Ids that are never sampled and that have no probability in training: image slots, role and padding tokens."""
        names = {self.ids[name] for name in _NEVER_SAMPLED if name in self.ids} | {self.pad}
        return tuple(sorted(names - set(self.eos)))


@lru_cache(maxsize=2048)
def _encode(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False).ids)


@dataclass(frozen=True, eq=False)
class Rendered:
    """A conversation as a model sees it, and which of its tokens the model wrote itself."""

    ids: Ids
    """[L]; an image is its placeholder id, once a visual token."""
    own: NDArray[np.bool_]
    """[L]; True on the model's own tokens: those it sampled, or those of a demonstration and its turn end."""
    logprobs: Logprobs | None
    """[L]; the sampler's, 0 where `own` is False; None if any assistant message came without."""
    images: tuple[ImagePart, ...]
    """In the order of their placeholders."""


@dataclass
class _Writer:
    ids: list[int] = field(default_factory=list)
    own: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    complete: bool = True

    def put(self, ids: Sequence[int], *, own: bool = False, logprobs: Sequence[float] | None = None) -> None:
        self.ids.extend(ids)
        self.own.extend([own] * len(ids))
        self.logprobs.extend([0.0] * len(ids) if logprobs is None else logprobs)
        self.complete = self.complete and not (own and logprobs is None)


@dataclass(frozen=True, eq=False)
class Renderer:
    """ChatML for one tokenizer and one way of counting visual tokens."""

    vocabulary: Vocabulary
    visual_tokens: Callable[[tuple[int, int]], int]
    """(width, height) of a view -> placeholders that it takes."""

    def render(self, messages: Sequence[Message], *, reply: bool = True) -> Rendered:
        """Token ids of a conversation; with `reply`, up to where the assistant starts to write."""
        out = _Writer()
        for message in messages:
            if message.role == "assistant":
                self._assistant(out, message)
            else:
                self._other(out, message)
        if reply:
            out.put(self._start("assistant"))
        images = tuple(part for message in messages for part in message.images)
        logprobs = np.asarray(out.logprobs, np.float32) if out.complete else None
        return Rendered(np.asarray(out.ids, np.int64), np.asarray(out.own, np.bool_), logprobs, images)

    def _start(self, role: str) -> tuple[int, ...]:
        return (self.vocabulary.ids["<|im_start|>"], *self.vocabulary.encode(f"{role}\n"))

    def _assistant(self, out: _Writer, message: Message) -> None:
        end = self.vocabulary.ids["<|im_end|>"]
        out.put(self._start("assistant"))
        if message.tokens is None:
            out.put((*self.vocabulary.encode(message.text), end), own=True)
        else:
            logprobs = message.tokens.logprobs
            out.put(message.tokens.ids.tolist(), own=True, logprobs=None if logprobs is None else logprobs.tolist())
            if out.ids[-1] != end:
                out.put((end,))
        out.put(self.vocabulary.encode("\n"))

    def _other(self, out: _Writer, message: Message) -> None:
        """Text between two special tokens is encoded in one piece, as the models were trained."""
        role = "user" if message.role == "tool" else message.role
        ids, text = self.vocabulary.ids, f"{role}\n"
        out.put((ids["<|im_start|>"],))
        for part in _parts(message):
            if isinstance(part, TextPart):
                text += part.text
                continue
            out.put(self.vocabulary.encode(text))
            text = ""
            pads = [ids["<|image_pad|>"]] * self.visual_tokens(part.view)
            out.put((ids["<|vision_start|>"], *pads, ids["<|vision_end|>"]))
        out.put(self.vocabulary.encode(text))
        out.put((ids["<|im_end|>"], *self.vocabulary.encode("\n")))


def _parts(message: Message) -> tuple[TextPart | ImagePart, ...]:
    if message.role != "tool":
        return message.parts
    return (TextPart("<tool_response>\n"), *message.parts, TextPart("\n</tool_response>"))


def image_runs(ids: Ids, image_pad: int) -> list[tuple[int, int]]:
    """(start, stop) of each run of image placeholders. Two pictures never touch: each has its own start and end."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (ids == image_pad).astype(np.int8), [0]))))
    return [(int(start), int(stop)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def rope_positions(ids: Ids, grids: Sequence[tuple[int, int]], image_pad: int) -> tuple[NDArray[np.int64], int]:
    """Three-axis positions [3, L] (time, height, width) and the position of the next token (Qwen2-VL, 2409.12191).

    `grids` holds each picture's (height, width) in visual tokens. ValueError if they do not fit the placeholders.
    """
    runs = image_runs(ids, image_pad)
    sizes = [height * width for height, width in grids]
    if [stop - start for start, stop in runs] != sizes:
        raise ValueError(
            f"placeholder runs {[b - a for a, b in runs]} do not match the pictures' visual tokens {sizes}"
        )
    positions = np.empty((3, len(ids)), np.int64)
    at, now = 0, 0
    for (start, stop), (height, width) in zip(runs, grids, strict=True):
        positions[:, at:start] = np.arange(now, now + start - at)
        now += start - at
        positions[0, start:stop] = now
        positions[1, start:stop] = now + np.repeat(np.arange(height), width)
        positions[2, start:stop] = now + np.tile(np.arange(width), height)
        now += max(height, width)
        at = stop
    positions[:, at:] = np.arange(now, now + len(ids) - at)
    return positions, now + len(ids) - at
