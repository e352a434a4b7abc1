"""The OpenAI chat-completions form: requests to JSON, answers to replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from vlagent.chat.base import ChatReply, ChatRequest, ImagePart, Message, NativeCall
from vlagent.errors import ContentFilterError, PermanentError, TransientError
from vlagent.randomness import seed_of
from vlagent.types import FinishReason, Usage

MAX_STOPS = 4
"""OpenAI takes no more; the rest is applied to the answer."""
_FINISHES: dict[str | None, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}
_BROKEN_OFF = frozenset({"abort", "error", "cancelled"})
"""The server gave up in mid-answer (vLLM, gateways): what it sent is not what the model wanted to say."""


def request_body(request: ChatRequest, urls: Mapping[ImagePart, str], max_tokens_field: str) -> dict[str, Any]:
    """The JSON body, without the model's name. `urls` holds a data URL for each picture."""
    sampling = request.sampling
    optional = {
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "presence_penalty": sampling.presence_penalty,
        "stop": list(request.stop[:MAX_STOPS]) or None,
        "tools": list(request.tools) or None,
        "seed": seed_of(*request.key) % 2**31 if request.key else None,
    }
    return {
        "messages": [_message(message, urls) for message in request.messages],
        "temperature": sampling.temperature,
        max_tokens_field: sampling.max_tokens,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _message(message: Message, urls: Mapping[ImagePart, str]) -> dict[str, Any]:
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    if message.role == "assistant":
        return _said(message)
    if not message.images:
        return {"role": message.role, "content": message.text}
    parts = [
        {"type": "image_url", "image_url": {"url": urls[part]}}
        if isinstance(part, ImagePart)
        else {"type": "text", "text": part.text}
        for part in message.parts
    ]
    return {"role": message.role, "content": parts}


def _said(message: Message) -> dict[str, Any]:
    if not message.calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def read_reply(service: str, body: Any, stop: tuple[str, ...]) -> ChatReply:
    """The reply in an answer's JSON. Raises a typed `ServiceError` where there is none."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        calls = tuple(_native_call(call) for call in message.get("tool_calls") or ())
        finish = _FINISHES.get(choice.get("finish_reason"), "stop")
        text, said = _text(message), _reasoning(message)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TransientError(service, f"the answer is no chat completion ({_kind(body)})") from error
    if choice.get("finish_reason") in _BROKEN_OFF:
        raise TransientError(service, f"the server broke the answer off (finish reason {choice['finish_reason']})")
    if finish == "content_filter":
        raise ContentFilterError(service, "the provider's content filter cut the answer")
    if text is None and not calls and not said and finish != "length":
        raise TransientError(service, "the answer is empty")
    text, cut = _cut(text or "", stop)
    if said and "</think" not in text:
        text = f"<think>\n{said.strip()}\n</think>\n{text}"
    return ChatReply(text=text, finish_reason="stop" if cut else finish, calls=calls, usage=_usage(body.get("usage")))


def _native_call(call: Any) -> NativeCall:
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    if not isinstance(function["name"], str) or not isinstance(arguments, str):
        raise TypeError("a tool call's name and arguments are texts")
    given = call.get("id") or f"call_{seed_of(function['name'], arguments):016x}"  # a result must name its call
    return NativeCall(id=str(given), name=function["name"], arguments=arguments)


def _text(message: Any) -> str | None:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content)
    if content is None:
        content = message.get("refusal")
    if content is not None and not isinstance(content, str):
        raise TypeError("content is a text")
    return content


def _reasoning(message: Any) -> str:
    """The thought that some servers split off; the dialect reads it as the turn's thought."""
    said = message.get("reasoning_content") or message.get("reasoning") or ""
    return said if isinstance(said, str) else ""


def _cut(text: str, stop: tuple[str, ...]) -> tuple[str, bool]:
    ends = [at for at in (text.find(end) for end in stop if end) if at >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


def _usage(usage: Any) -> Usage:
    counts = usage if isinstance(usage, dict) else {}
    prompt, completion = (counts.get(name) for name in ("prompt_tokens", "completion_tokens"))
    return Usage(
        prompt_tokens=prompt if isinstance(prompt, int) else 0,
        completion_tokens=completion if isinstance(completion, int) else 0,
        calls=1,
    )


def _kind(body: Any) -> str:
    if isinstance(body, dict):
        return f"its fields are {', '.join(sorted(map(str, body))[:6]) or 'none'}"
    return f"it is a JSON {type(body).__name__}"


def refuse_error_body(service: str, body: Any) -> None:
    """Some gateways answer 200 with an error object."""
    if isinstance(body, dict) and body.get("error") and not body.get("choices"):
        error = cast(Any, body["error"])
        message = error.get("message") if isinstance(error, dict) else error
        raise PermanentError(service, " ".join(str(message).split())[:300])
