"""Error answers in the words of the documentation (`openai_server` names the pages): status and error object."""

from __future__ import annotations

from typing import Any

FAULTS: dict[str, tuple[int, dict[str, Any]]] = {
    "500": (
        500,
        {
            "message": "The server had an error while processing your request. Sorry about that!",
            "type": "server_error",
            "param": None,
            "code": None,
        },
    ),
    "503": (
        503,
        {
            "message": "The engine is currently overloaded, please try again later",
            "type": "service_unavailable_error",
            "param": None,
            "code": "server_is_overloaded",
        },
    ),
    "429": (
        429,
        {
            "message": "Rate limit reached for requests.",
            "type": "requests",
            "param": None,
            "code": "rate_limit_exceeded",
        },
    ),
    "quota": (
        429,
        {
            "message": "You exceeded your current quota, please check your plan and billing details.",
            "type": "insufficient_quota",
            "param": None,
            "code": "insufficient_quota",
        },
    ),
    "401": (
        401,
        {
            "message": "Incorrect API key provided: sk-f***.",
            "type": "invalid_request_error",
            "param": None,
            "code": "invalid_api_key",
        },
    ),
    "context": (
        400,
        {
            "message": "This model's maximum context length is 8192 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        },
    ),
    "filter_prompt": (
        400,
        {
            "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management "
            "policy.",
            "type": None,
            "param": "prompt",
            "code": "content_filter",
            "status": 400,
            "innererror": {
                "code": "ResponsibleAIPolicyViolation",
                "content_filter_result": {"violence": {"filtered": True, "severity": "high"}},
            },
        },
    ),
}
