"""A `TokenEngine` over a vLLM server: token ids and processed pictures in, token ids and log-probabilities out.

The contract is that of `vllm serve` 0.22 to 0.31 (docs.vllm.ai, "Tokens IN <> Tokens OUT"): each picture is processed
once by `/v1/chat/completions/render`, and every turn goes to `/inference/v1/generate` with the ids as they are. Start
the server with `--logprobs-mode processed_logprobs` (log-probabilities of what is sampled from, temperature included)
and, from 0.30 on, `--enable-scale-out`. It was never run against a real server by us: vLLM needs AVX-512 or a GPU.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import httpx
from pydantic import BaseModel

from vlagent.chat.base import ImagePart
from vlagent.chat.token_server import NEVER, Slots, TokenServer, TokenServerOptions, runs_of
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError
from vlagent.randomness import seed_of
from vlagent.types import Ids

SCALE_OUT = "from vLLM 0.30 on, start it with --enable-scale-out"
KEPT_BYTES = 512 * 2**20
"""Of processed pictures, as base64."""
Key = tuple[Any, ...]


class _Named(BaseModel):
    token: Any = None
    logprob: Any = None


class _Logprobs(BaseModel):
    content: list[_Named] | None = None


class _Choice(BaseModel):
    token_ids: list[Any] | None = None
    logprobs: _Logprobs | None = None
    finish_reason: Any = None


class _Usage(BaseModel):
    prompt_tokens: Any = None


class _Answer(BaseModel):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


class VllmEngine:
    """Generation on a vLLM server. Use it as an asynchronous context manager, or call `aclose`."""

    def __init__(
        self,
        model: str,
        slots: Slots,
        options: TokenServerOptions | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.server = TokenServer("vLLM", slots, options or TokenServerOptions(), transport)
        self.aclose = self.server.aclose
        self._model, self._slots = model, slots
        self._features: OrderedDict[Key, asyncio.Task[dict[str, Any]]] = OrderedDict()

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput:
        """Sample a reply. Raises a typed `ServiceError`; a cut-off connection is tried again with the same seed."""
        body = {
            "model": self._model,
            "token_ids": [int(i) for i in token_ids],
            "sampling_params": self._sampling(params),
            "stream": False,
        }
        if images:
            body["features"] = await self._all_features(token_ids, images)
        value = await self.server.call("/inference/v1/generate", body, missing=SCALE_OUT)
        answer = self.server.read(_Answer, value)
        self.server.check_prompt(token_ids, (answer.usage or _Usage()).prompt_tokens)
        choice = (answer.choices or [_Choice()])[0]
        ids = choice.token_ids or []
        return self.server.output(ids, self._logprobs(choice, ids), choice.finish_reason)

    def _sampling(self, params: TokenParams) -> dict[str, Any]:
        """vLLM's `SamplingParams`. The token that completes a stop string stays in the ids, as does the end token."""
        wanted = {
            "top_p": params.top_p,
            "top_k": params.top_k,
            "presence_penalty": params.presence_penalty,
            "stop": list(params.stop) or None,
            "stop_token_ids": list(self._slots.eos) or None,
            "logit_bias": {str(i): NEVER for i in self._slots.banned} or None,
            "seed": seed_of("vllm", *params.key) if params.key else None,
        }
        fixed = {
            "temperature": params.temperature,
            "max_tokens": params.max_tokens,
            "logprobs": 1,
            "skip_special_tokens": False,
            "output_kind": 2,  # FINAL_ONLY: one answer, at the end
        }
        return fixed | {name: value for name, value in wanted.items() if value is not None}

    def _logprobs(self, choice: _Choice, ids: Sequence[Any]) -> list[Any]:
        """One a token; the server names tokens by id, which must be those that it sampled."""
        content = (choice.logprobs or _Logprobs()).content or []
        named = [entry.token for entry in content]
        if len(named) == len(ids) and named != [f"token_id:{i}" for i in ids]:
            raise PermanentError(self.server.service, "the log-probabilities are of other tokens than those sampled")
        return [entry.logprob for entry in content]

    async def _all_features(self, ids: Ids, images: Sequence[ImagePart]) -> dict[str, Any]:
        """vLLM's `MultiModalFeatures`: where each picture lies in the ids, and what it holds."""
        runs = runs_of(ids, self._slots.image_pad)
        if len(runs) != len(images):
            raise ValueError(f"{len(images)} pictures for {len(runs)} runs of placeholders")
        found = await asyncio.gather(*(self._features_of(part) for part in images))
        for (_, length), feature, part in zip(runs, found, images, strict=True):
            if feature["length"] != length:
                raise PermanentError(
                    self.server.service,
                    f"it sees {part.ref.path} as {feature['length']} tokens, the policy as {length}; "
                    "give it the policy's pixel limits (--mm-processor-kwargs)",
                )
        return {
            "mm_hashes": {"image": [feature["hash"] for feature in found]},
            "mm_placeholders": {"image": [{"offset": offset, "length": length} for offset, length in runs]},
            "kwargs_data": {"image": [feature["data"] for feature in found]},
        }

    async def _features_of(self, part: ImagePart) -> dict[str, Any]:
        """Processed once for all episodes and turns that show the picture."""
        key = (asyncio.get_running_loop(), part.ref.path, part.ref.box, part.view)
        task = self._features.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._features[key] = asyncio.ensure_future(self._rendered(part))
        self._features.move_to_end(key)
        feature = await asyncio.shield(task)
        self._forget_oldest()
        return feature

    async def _rendered(self, part: ImagePart) -> dict[str, Any]:
        content = [{"type": "image_url", "image_url": {"url": await self.server.pictures.of(part)}}]
        body = {"model": self._model, "messages": [{"role": "user", "content": content}], "max_tokens": 1}
        value = await self.server.call("/v1/chat/completions/render", body, missing=SCALE_OUT)
        try:
            features = value["features"]
            return {
                "hash": features["mm_hashes"]["image"][0],
                "length": features["mm_placeholders"]["image"][0]["length"],
                "data": features["kwargs_data"]["image"][0],
            }
        except (KeyError, IndexError, TypeError):
            raise PermanentError(self.server.service, f"it rendered {part.ref.path} to no image features") from None

    def _forget_oldest(self) -> None:
        done = [task.result() for task in self._features.values() if _is_good(task)]
        size = sum(len(feature["data"] or "") for feature in done)
        while size > KEPT_BYTES and len(self._features) > 1:
            task = self._features.popitem(last=False)[1]
            size -= len(task.result()["data"] or "") if _is_good(task) else 0


def _is_good(task: asyncio.Task[dict[str, Any]]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
