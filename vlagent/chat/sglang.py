"""A `TokenEngine` over an SGLang server: token ids and pictures in, token ids and log-probabilities out.

The contract is that of SGLang's native API (docs.sglang.io, "Sampling Parameters" and "SGLang for RL systems"):
`/generate` with `input_ids` and `image_data`, weights by `/update_weights_from_disk`. With pictures the server may
tokenize the prompt anew, so its count is compared with ours and a difference is an error. It was never run against a
real server by us.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import httpx
from pydantic import BaseModel, Field

from vlagent.chat.base import ImagePart
from vlagent.chat.token_server import NEVER, Slots, TokenServer, TokenServerOptions
from vlagent.chat.tokens import TokenOutput, TokenParams
from vlagent.errors import PermanentError
from vlagent.randomness import seed_of
from vlagent.types import Ids

SEEDS = 2**31
"""SGLang keeps seeds in 32 bits."""


class SglangOptions(TokenServerOptions):
    """How an SGLang server is used."""

    base_url: str = "http://127.0.0.1:30000"
    send_seed: bool = False
    """Servers take a seed a request only with `--enable-deterministic-inference`."""


class _Ending(BaseModel):
    type: Any = None
    message: Any = None
    status_code: Any = None


class _Meta(BaseModel):
    prompt_tokens: Any = None
    finish_reason: _Ending | None = None
    output_token_logprobs: list[Annotated[list[Any], Field(min_length=2)]] | None = None
    """(log-probability, id, text) of each token."""


class _Answer(BaseModel):
    meta_info: _Meta | None = None


class SglangEngine:
    """Generation on an SGLang server. Use it as an asynchronous context manager, or call `aclose`."""

    def __init__(
        self, slots: Slots, options: SglangOptions | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.options = options or SglangOptions()
        self.server = TokenServer("SGLang", slots, self.options, transport)
        self.aclose = self.server.aclose
        self._slots = slots

    async def generate(self, token_ids: Ids, images: Sequence[ImagePart], params: TokenParams) -> TokenOutput:
        """Sample a reply. Raises a typed `ServiceError`."""
        body: dict[str, Any] = {
            "input_ids": [int(i) for i in token_ids],
            "sampling_params": self._sampling(params),
            "return_logprob": True,
            "stream": False,
        }
        if images:
            body["image_data"] = list(await asyncio.gather(*(self.server.pictures.of(part) for part in images)))
        meta = self.server.read(_Answer, await self.server.call("/generate", body)).meta_info or _Meta()
        self.server.check_prompt(token_ids, meta.prompt_tokens)
        ending = meta.finish_reason or _Ending()
        self._refuse_abort(ending)
        sampled = meta.output_token_logprobs or []
        return self.server.output([one[1] for one in sampled], [one[0] for one in sampled], ending.type)

    async def update_weights(self, folder: Path) -> None:
        """Load new weights from a folder that the server can read; its caches are emptied. Raises `ServiceError`."""
        value = await self.server.call("/update_weights_from_disk", {"model_path": str(folder.absolute())})
        if value.get("success") is not True:
            raise PermanentError(self.server.service, f"it did not take the weights ({value.get('message')})")

    def _sampling(self, params: TokenParams) -> dict[str, Any]:
        """SGLang's sampling parameters; nothing is trimmed, so ids and text stay those that were sampled."""
        wanted = {
            "top_p": params.top_p,
            "top_k": params.top_k if params.top_k and params.top_k > 0 else None,
            "presence_penalty": params.presence_penalty,
            "stop": list(params.stop) or None,
            "stop_token_ids": list(self._slots.eos) or None,
            "logit_bias": {str(i): NEVER for i in self._slots.banned} or None,
            "sampling_seed": seed_of("sglang", *params.key) % SEEDS if self.options.send_seed and params.key else None,
        }
        fixed = {
            "temperature": params.temperature,
            "max_new_tokens": params.max_tokens,
            "skip_special_tokens": False,
            "no_stop_trim": True,
        }
        return fixed | {name: value for name, value in wanted.items() if value is not None}

    def _refuse_abort(self, ending: _Ending) -> None:
        """A request that the server refuses comes back as an abort with a status code; retrying changes nothing."""
        status = ending.status_code
        if ending.type == "abort" and isinstance(status, int) and 400 <= status < 500:
            raise PermanentError(self.server.service, f"it refused the request ({ending.message})")
