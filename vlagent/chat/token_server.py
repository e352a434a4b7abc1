"""What the token engines over HTTP share: one server, its address and key, and the reading of what it sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import numpy as np
from pydantic import BaseModel, Field, ValidationError

from vlagent.chat.failures import failure
from vlagent.chat.keys import KeyAuth, key_from_environment, refuse_keys
from vlagent.chat.pictures import DataUrls
from vlagent.chat.post import Poster, PostOptions
from vlagent.chat.tokens import TokenOutput
from vlagent.errors import PermanentError, TransientError, UserError, first_problem
from vlagent.types import Ids

KEY_NAMES = ("VLAGENT_API_KEY",)
A = TypeVar("A", bound=BaseModel)
NEVER = -100.0
"""Added to the logits of banned ids: a probability of 4e-44 of what it was, the most that servers take."""


class TokenServerOptions(PostOptions):
    """How a rollout server is used. Its key comes from the environment."""

    base_url: str = "http://127.0.0.1:8000"
    """The server's root; a `/v1` at its end is taken off."""
    attempts: int = Field(default=3, ge=1)


@dataclass(frozen=True)
class Slots:
    """What an engine must know of the vocabulary."""

    image_pad: int
    """The id that stands for one visual token."""
    banned: tuple[int, ...] = ()
    """Ids that are never sampled and have no probability."""
    eos: tuple[int, ...] = ()
    """Ids that end a reply."""
    size: int | None = None
    """Ids that the policy has; None where it is not known."""


class TokenServer:
    """One rollout server of any kind."""

    def __init__(
        self, kind: str, slots: Slots, options: TokenServerOptions, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.options, self._slots = options, slots
        self._root = _root(options.base_url)
        self.service = f"{kind} server at {self._root.netloc.decode('ascii')}"
        auth = KeyAuth(key_from_environment(KEY_NAMES), "Authorization")
        self._poster = Poster(self.service, options, auth, transport)
        self.pictures = DataUrls(lossless=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._poster.aclose()

    async def call(self, path: str, body: dict[str, Any], *, missing: str = "") -> dict[str, Any]:
        """Post, with retries, and read a JSON object. `missing` says what to do where the server has no such path."""
        url = self._root.copy_with(path=self._root.path.rstrip("/") + path)
        return (await self._poster.retried(lambda: self._attempt(url, body, missing)))[0]

    async def _attempt(self, url: httpx.URL, body: dict[str, Any], missing: str) -> dict[str, Any]:
        status, headers, answer = await self._poster.posted(url, body)
        if status == 404 and missing:
            raise PermanentError(self.service, f"it serves no {url.path}: {missing}")
        if status != 200:
            raise failure(self.service, status, headers, answer)
        value = await self._poster.parsed(answer, headers.get("content-type", ""))
        if not isinstance(value, dict):
            raise PermanentError(self.service, f"an object is expected from {url.path}, not {type(value).__name__}")
        return value

    def read(self, kind: type[A], value: dict[str, Any]) -> A:
        """An answer in the form of the contract. Raises `PermanentError` where it has another."""
        try:
            return kind.model_validate(value)
        except ValidationError as error:
            first = first_problem(error)
            raise PermanentError(self.service, f"its answer has another form: {first.key}: {first.said}") from None

    def output(self, ids: Sequence[Any], logprobs: Sequence[Any], reason: Any) -> TokenOutput:
        """Checked: ids of the policy, a finite log-probability for each, an ending that we know.

        Raises `ServiceError`.
        """
        if not all(type(i) is int and i >= 0 for i in ids) or not ids:
            raise PermanentError(self.service, "no token ids came back")
        self._refuse_foreign(ids)
        if len(logprobs) != len(ids) or not all(_is_logprob(value) for value in logprobs):
            raise PermanentError(self.service, f"{len(ids)} tokens came back without a log-probability for each")
        if reason not in ("stop", "length"):
            raise TransientError(self.service, f"the reply was broken off ({reason})")
        return TokenOutput(np.asarray(ids, np.int64), np.asarray(logprobs, np.float32), reason)

    def _refuse_foreign(self, ids: Sequence[int]) -> None:
        """An id that the policy has no weights for, or that stands for a picture, could not be trained on."""
        if self._slots.size is not None and max(ids) >= self._slots.size:
            raise PermanentError(
                self.service,
                f"it sampled the id {max(ids)}, the policy has {self._slots.size}: it serves another model",
            )
        if banned := set(ids) & set(self._slots.banned):
            raise PermanentError(self.service, f"it sampled the id {min(banned)} in spite of its logit bias")

    def check_prompt(self, sent: Ids, counted: Any) -> None:
        """Raise where the server saw another prompt than it was sent: nothing could be trained on the reply."""
        if isinstance(counted, int) and counted != len(sent):
            raise PermanentError(
                self.service,
                f"it counts {counted} prompt tokens where {len(sent)} were sent; "
                "give it the processor settings (pixel limits) of the policy",
            )


def _is_logprob(value: Any) -> bool:
    """vLLM writes -9999 where it has none."""
    return isinstance(value, int | float) and math.isfinite(value) and -9999 < value <= 1e-3


def runs_of(ids: Ids, image_pad: int) -> list[tuple[int, int]]:
    """(offset, length) of each run of image placeholders; two pictures never touch."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (np.asarray(ids) == image_pad).astype(np.int8), [0]))))
    return [(int(start), int(stop - start)) for start, stop in zip(edges[::2], edges[1::2], strict=True)]


def _root(base_url: str) -> httpx.URL:
    refuse_keys(base_url)
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise UserError(f"base URL {base_url!r}: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UserError(f"base URL {base_url!r}: write it as http://HOST:PORT")
    return url.copy_with(path=url.path.rstrip("/").removesuffix("/v1") or "/")
