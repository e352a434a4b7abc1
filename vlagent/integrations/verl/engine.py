"""veRL's rollout servers as a `TokenEngine`: ids and pictures in, ids and log-probabilities out.

Shape letters: L = prompt tokens, N = new tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from PIL import Image

from vlagent import images as pictures
from vlagent.chat.base import ImagePart
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError, TransientError, UserError
from vlagent.model.chatml import Vocabulary
from vlagent.types import Ids

SERVICE = "verl rollout server"


class ServerEngine:
    """One episode's view of veRL's server manager; its turns go to the same server, which keeps their prefix."""

    def __init__(self, server: Any, sampling: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        self._server = server
        self._sampling = dict(sampling)
        self._vocabulary = vocabulary
        self._request_id = uuid4().hex
        self._shown: dict[ImagePart, Image.Image] = {}

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput:
        """Temperature, top-p and top-k are veRL's, since its trainer models those; limits and stops are the loop's.

        Raises `ServiceError` where the server gave nothing usable; what Ray raises is not caught.
        """
        shown = [await self._picture(part) for part in images]
        output = await self._server.generate(
            request_id=self._request_id,
            prompt_ids=[int(i) for i in token_ids],
            sampling_params=self._parameters(params),
            image_data=shown or None,
        )
        if output.stop_reason == "aborted":
            raise TransientError(SERVICE, "the request was aborted")
        if output.log_probs is None:
            raise UserError("veRL gave no log-probabilities: set actor_rollout_ref.rollout.calculate_log_probs=true")
        ids = np.asarray(output.token_ids, np.int64)
        self._check(ids)
        return TokenOutput(ids, np.asarray(output.log_probs, np.float32), self._finish(ids, params))

    async def _picture(self, part: ImagePart) -> Image.Image:
        """A picture at the size at which the model sees it."""
        if part not in self._shown:
            self._shown[part] = await asyncio.to_thread(pictures.load, part.ref, part.view)
        return self._shown[part]

    def _parameters(self, params: TokenParams) -> dict[str, Any]:
        """A new one each time: servers take what they need out of it."""
        mine: dict[str, Any] = {"max_tokens": params.max_tokens, "stop": list(params.stop)}
        if params.presence_penalty is not None:
            mine["presence_penalty"] = params.presence_penalty
        return {**self._sampling, **mine}

    def _check(self, ids: Ids) -> None:
        """A sampled picture token would claim a picture that is not there."""
        wrong = np.intersect1d(ids, self._vocabulary.banned)
        if wrong.size:
            raise PermanentError(SERVICE, f"sampled {self._vocabulary.decode(wrong[:1])}, which no reply may hold")

    def _finish(self, ids: Ids, params: TokenParams) -> Any:
        """veRL says `completed` for both ends."""
        ended = len(ids) > 0 and int(ids[-1]) in self._vocabulary.eos
        text = "" if ended else self._vocabulary.decode(ids)
        return "stop" if ended or any(stop in text for stop in params.stop if stop) else "length"
