"""What an endpoint's refusal means, as a typed error with one line."""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Mapping
from typing import Any

from vlagent.errors import (
    AuthError,
    ContentFilterError,
    PermanentError,
    QuotaError,
    RateLimitedError,
    ServiceError,
    TransientError,
)

_FILTER_CODES = ("content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation", "moderation_blocked")
_QUOTA_CODES = ("insufficient_quota", "billing_hard_limit_reached", "quota_exceeded")
_RETRYABLE = (408, 409, 425)


def failure(service: str, status: int, headers: Mapping[str, str], body: bytes) -> ServiceError:
    """The error for an answer with this HTTP status."""
    error = error_of(body)
    codes = {str(error.get("code")), str(error.get("type")), str(_inner(error))}
    message = f"HTTP {status}: {_message(error, body)}"
    if codes & set(_FILTER_CODES):
        return ContentFilterError(service, "the provider's content filter refused the prompt")
    if status == 402 or codes & set(_QUOTA_CODES):
        return QuotaError(service, message)
    if status == 429:
        return RateLimitedError(service, message, retry_after_s=retry_after_s(headers))
    if status in (401, 403):
        return AuthError(service, f"{message} (set VLAGENT_API_KEY, OPENAI_API_KEY or AZURE_OPENAI_API_KEY)")
    if status >= 500 or status in _RETRYABLE:
        return TransientError(service, message, retry_after_s=retry_after_s(headers))
    if status == 404:
        return PermanentError(service, f"{message} (check the model's name and the base URL, which often ends in /v1)")
    return PermanentError(service, message)


def error_of(body: bytes) -> dict[str, Any]:
    """The error object of an answer; empty where there is none."""
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    error = value.get("error", value) if isinstance(value, dict) else {}
    return error if isinstance(error, dict) else {"message": str(error)}


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as the server asks: `retry-after-ms`, or `Retry-After` in seconds or as a date."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            wait = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(wait):
            return max(wait, 0.0)
    try:
        date = email.utils.parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(date.timestamp() - time.time(), 0.0)


def _inner(error: dict[str, Any]) -> Any:
    inner = error.get("innererror")
    return inner.get("code") if isinstance(inner, dict) else None


def _message(error: dict[str, Any], body: bytes) -> str:
    text = str(error.get("message") or error.get("detail") or body[:200].decode("utf-8", "replace"))
    return " ".join(text.split())[:300] or "no message"
