"""A search provider's refusal as a typed error."""

from __future__ import annotations

from collections.abc import Mapping

from vlagent.chat.failures import error_of, retry_after_s
from vlagent.errors import AuthError, PermanentError, QuotaError, RateLimitedError, ServiceError, TransientError

_QUOTA = ("not enough credits", "quota_limited", "run out of searches", "exceeds your plan", "usage limit")
"""Serper says it with 400, Brave and SerpApi with 429, Tavily with 432 and 433."""
_AUTH = ("subscription_token_invalid", "invalid api key", "missing api key", "invalid token")


def failure(
    service: str, status: int, headers: Mapping[str, str], body: bytes, key_names: tuple[str, ...]
) -> ServiceError:
    """The error for an answer with this HTTP status; any but 200 is one."""
    said = body[:2000].decode("utf-8", "replace").lower()
    message = f"HTTP {status}: {_message(body)}"
    if status in (402, 432, 433) or any(mark in said for mark in _QUOTA):
        return QuotaError(service, message)
    if status == 429:
        return RateLimitedError(service, message, retry_after_s=_wait(headers))
    if key_names and (status in (401, 403) or any(mark in said for mark in _AUTH)):
        return AuthError(service, f"{message} (is the key in {key_names[0]} right?)")
    if status >= 500 or status in (408, 425):
        return TransientError(service, message, retry_after_s=_wait(headers))
    return PermanentError(service, message)


def _wait(headers: Mapping[str, str]) -> float | None:
    """`Retry-After`, or Brave's `X-RateLimit-Reset`: seconds of each window, the shortest first."""
    wait = retry_after_s(headers)
    first = headers.get("x-ratelimit-reset", "").split(",")[0].strip()
    return float(first) if wait is None and first.isdecimal() and int(first) <= 60 else wait


def _message(body: bytes) -> str:
    error = error_of(body)
    text = error.get("message") or error.get("detail") or error.get("error") or body[:200].decode("utf-8", "replace")
    return " ".join(str(text).split())[:200] or "no message"
