"""Rollout servers, token ids in and token ids out: vLLM's and SGLang's, each held to its own documentation.

vLLM: docs.vllm.ai, "Tokens IN <> Tokens OUT", as `vllm/entrypoints/serve/disagg/protocol.py` states it (GenerateRequest
  with `token_ids`, `features` {mm_hashes, mm_placeholders [{offset, length}], kwargs_data}, `sampling_params`, `model`,
  `stream`; GenerateResponse with `choices` [{index, token_ids, logprobs, finish_reason}] and `usage`). A picture's
  features come from `POST /v1/chat/completions/render`; an item may be named by its hash alone once it is in the cache.
  Requests for another model are 404, other mistakes 400, `{"error": {"message", "type", "code"}}`.
SGLang: docs.sglang.io, "Sampling Parameters" and "Native APIs": `POST /generate` with `input_ids` or `text`,
  `sampling_params` (the ranges are those of `sampling_params.py`), `return_logprob`, `image_data`; the answer has
  `meta_info` {prompt_tokens, completion_tokens, finish_reason {type, matched}, output_token_logprobs [[logprob, id,
  text]]}; `POST /update_weights_from_disk` {model_path} answers {success, message}. Mistakes are 400 {"error"}.

Both write the ids of a fixed reply; what they see is checked. A picture is one token for each 32 x 32 pixels.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import math
from typing import Any

from PIL import Image

from tests.fakes.web_server import Answer, Asked, Fake, Fault, Refused, as_json

REPLY = (101, 102, 103, 2)
EOS = 2
VOCABULARY = 1000


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VLLM = _named(
    """request_id token_ids assistant_tokens_mask token_offsets features sampling_params model stream stream_options
    cache_salt priority kv_transfer_params"""
)
_VLLM_SAMPLING = _named(
    """n presence_penalty frequency_penalty repetition_penalty temperature top_p top_k min_p seed stop stop_token_ids
    bad_words include_stop_str_in_output ignore_eos max_tokens min_tokens logprobs prompt_logprobs flat_logprobs
    detokenize skip_special_tokens spaces_between_special_tokens truncate_prompt_tokens output_kind skip_clone
    structured_outputs logit_bias allowed_token_ids extra_args"""
)
_SGLANG = _named(
    """text input_ids input_embeds image_data audio_data video_data sampling_params rid return_logprob
    logprob_start_len top_logprobs_num token_ids_logprob return_text_in_logprobs stream lora_path
    custom_logit_processor return_hidden_states"""
)
_SGLANG_SAMPLING = _named(
    """max_new_tokens stop stop_token_ids stop_regex temperature top_p top_k min_p frequency_penalty presence_penalty
    repetition_penalty min_new_tokens n json_schema regex ebnf structural_tag ignore_eos skip_special_tokens
    spaces_between_special_tokens no_stop_trim custom_params stream_interval logit_bias sampling_seed"""
)


def tokens_of(size: tuple[int, int]) -> int:
    """Of one picture."""
    return max(1, math.ceil(size[0] / 32) * math.ceil(size[1] / 32))


def _picture(url: Any, refuse: Any) -> Image.Image:
    head, _, data = str(url).partition(";base64,")
    try:
        if not head.startswith("data:image/"):
            raise ValueError(head)
        picture = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        picture.load()
    except (ValueError, binascii.Error, OSError) as error:
        raise refuse(f"not a picture: {error}") from None
    return picture


def _check_sampling(given: Any, allowed: frozenset[str], refuse: Any) -> dict[str, Any]:
    """The ranges that both servers check."""
    if not isinstance(given, dict):
        raise refuse("sampling_params: an object is expected")
    for name in given:
        if name not in allowed:
            raise refuse(f"sampling_params.{name}: unknown")
    if not (isinstance(given.get("temperature", 1.0), int | float) and 0 <= given.get("temperature", 1.0) < 1e6):
        raise refuse("temperature must be non-negative")
    if not 0 < given.get("top_p", 1.0) <= 1:
        raise refuse("top_p must be in (0, 1]")
    if given.get("top_k", -1) < -1:
        raise refuse("top_k must be -1 or more")
    if not -2 <= given.get("presence_penalty", 0.0) <= 2:
        raise refuse("presence_penalty must be in [-2, 2]")
    bias = given.get("logit_bias") or {}
    if any(not 0 <= int(token) < VOCABULARY or not -100 <= value <= 100 for token, value in bias.items()):
        raise refuse("logit_bias: a token outside of the vocabulary, or a value outside of [-100, 100]")
    if any(not isinstance(token, int) for token in given.get("stop_token_ids", [])):
        raise refuse("stop_token_ids: integers are expected")
    return given


def _ids(value: Any, refuse: Any) -> list[int]:
    if not isinstance(value, list) or not value or any(type(i) is not int or i < 0 for i in value):
        raise refuse("token ids: a list of at least one integer of 0 or more is expected")
    return value


class Vllm(Fake):
    """`vllm serve --enable-scale-out --logprobs-mode processed_logprobs`."""

    def __init__(self, model: str = "policy", *, scale_out: bool = True) -> None:
        super().__init__()
        self.model, self.scale_out = model, scale_out
        self.known: set[str] = set()
        """Hashes of the pictures in its cache."""

    def reply(self, asked: Asked) -> Answer:
        routes = {"/inference/v1/generate": self._generate, "/v1/chat/completions/render": self._render}
        route = routes.get(asked.path)
        if asked.method != "POST" or route is None or not self.scale_out:
            raise Refused(404, {"detail": "Not Found"})
        body = asked.json
        if body.get("model", self.model) != self.model:
            said = f"The model `{body['model']}` does not exist."
            raise Refused(404, {"error": {"message": said, "type": "NotFoundError", "param": "model", "code": 404}})
        return as_json(route(body))

    def refusal(self, fault: Fault) -> Answer:
        return as_json({"error": {"message": fault.kind, "type": fault.kind, "code": 429}}, 429)

    def _render(self, body: dict[str, Any]) -> dict[str, Any]:
        parts = [part for message in body["messages"] for part in message["content"] if part["type"] == "image_url"]
        pictures = [_picture(part["image_url"]["url"], _vllm_refusal) for part in parts]
        ids, places, hashes = [5], [], []
        for picture in pictures:
            length = tokens_of(picture.size)
            places.append({"offset": len(ids), "length": length})
            hashes.append(hashlib.sha256(picture.tobytes()).hexdigest())
            ids += [9] * length
        features = {
            "mm_hashes": {"image": hashes},
            "mm_placeholders": {"image": places},
            "kwargs_data": {"image": [base64.b64encode(h.encode()).decode() for h in hashes]},
        }
        return {"request_id": "r", "token_ids": ids, "features": features, "sampling_params": {"max_tokens": 1}}

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        for name in body:
            if name not in _VLLM:
                raise _vllm_refusal(f"{name}: unknown")
        ids = _ids(body.get("token_ids"), _vllm_refusal)
        sampling = _check_sampling(body.get("sampling_params"), _VLLM_SAMPLING, _vllm_refusal)
        if body.get("features"):
            self._see(body["features"], ids)
        elif 9 in ids:
            raise _vllm_refusal("placeholders without features")
        reply = list(REPLY[: sampling.get("max_tokens", 16)])
        logprobs = None
        if sampling.get("logprobs") is not None:
            content = [{"token": f"token_id:{i}", "logprob": -0.5, "bytes": None, "top_logprobs": []} for i in reply]
            logprobs = {"content": content}
        finish = "stop" if reply[-1] == EOS else "length"
        choice = {"index": 0, "token_ids": reply, "logprobs": logprobs, "finish_reason": finish}
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(reply), "total_tokens": len(ids) + len(reply)}
        return {"request_id": "r", "model": self.model, "choices": [choice], "usage": usage, "prompt_logprobs": None}

    def _see(self, features: dict[str, Any], ids: list[int]) -> None:
        """Placeholders must lie where the ids say so; an item without data must be known."""
        hashes, places = features["mm_hashes"]["image"], features["mm_placeholders"]["image"]
        data = (features.get("kwargs_data") or {}).get("image") or [None] * len(hashes)
        if not len(hashes) == len(places) == len(data):
            raise _vllm_refusal("features: the lists are not parallel")
        for name, place, item in zip(hashes, places, data, strict=True):
            run = ids[place["offset"] : place["offset"] + place["length"]]
            if run != [9] * place["length"]:
                raise _vllm_refusal(f"no placeholders at {place}")
            if item is None and name not in self.known:
                raise _vllm_refusal(f"item {name[:8]} is not in the cache")
            self.known.add(name)


def _vllm_refusal(said: str) -> Refused:
    return Refused(400, {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}})


class Sglang(Fake):
    """`python -m sglang.launch_server`."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[str] = []
        self.prompt_tokens: int | None = None
        """What the server counts; None is what it was sent."""

    def reply(self, asked: Asked) -> Answer:
        if asked.method == "POST" and asked.path == "/update_weights_from_disk":
            self.weights.append(asked.json["model_path"])
            return as_json({"success": True, "message": "Succeeded to update model weights.", "num_paused_requests": 0})
        if asked.method != "POST" or asked.path != "/generate":
            raise Refused(404, {"detail": "Not Found"})
        return as_json(self._generate(asked.json))

    def refusal(self, fault: Fault) -> Answer:
        return as_json({"error": {"message": fault.kind}}, 429)

    def _generate(self, body: dict[str, Any]) -> dict[str, Any]:
        for name in body:
            if name not in _SGLANG:
                raise _sglang_refusal(f"{name}: unknown")
        if sum(body.get(name) is not None for name in ("text", "input_ids", "input_embeds")) != 1:
            raise _sglang_refusal("Either text, input_ids or input_embeds should be provided.")
        ids = _ids(body["input_ids"], _sglang_refusal)
        sampling = _check_sampling(body.get("sampling_params"), _SGLANG_SAMPLING, _sglang_refusal)
        if sampling.get("top_k", -1) == 0:
            raise _sglang_refusal("top_k must be at least 1, or -1 to disable it.")
        for url in body.get("image_data") or []:
            _picture(url, _sglang_refusal)
        reply = list(REPLY[: sampling.get("max_new_tokens", 128)])
        ended = reply[-1] in sampling.get("stop_token_ids", [])
        finish = {"type": "stop", "matched": reply[-1]} if ended else {"type": "length", "length": len(reply)}
        meta: dict[str, Any] = {
            "id": "r",
            "finish_reason": finish,
            "prompt_tokens": self.prompt_tokens or len(ids),
            "completion_tokens": len(reply),
            "cached_tokens": 0,
            "e2e_latency": 0.1,
        }
        if body.get("return_logprob"):
            meta["output_token_logprobs"] = [[-0.5, token, None] for token in reply]
        return {"text": "a reply", "output_ids": reply, "meta_info": meta}


def _sglang_refusal(said: str) -> Refused:
    return Refused(400, {"error": {"message": said, "type": "BadRequestError", "param": None, "code": 400}})
