"""What callers send, and what they are told in return."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from vlagent.errors import RateLimitedError, ServiceError, TransientError, UserError, first_problem
from vlagent.search.base import Summary
from vlagent.search.server.gate import Busy

B = TypeVar("B", bound=BaseModel)
MAX_TOP_K = 20
NOTHING = "No results were found for this query."


class Refused(Exception):
    """The request is turned down before anything is done."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Body(BaseModel):
    """Fields that we do not know are left alone: callers of other servers send more."""

    model_config = ConfigDict(extra="ignore")


class SearchBody(_Body):
    """`POST /search`, as callers of the reference's server send it."""

    query: str = Field(min_length=1, max_length=2000)
    retrieval_mode: Literal["google_serper", "local"] = "google_serper"
    top_k: int | None = Field(default=None, ge=1, le=MAX_TOP_K)
    local_database_address: str | None = None
    web_search_address: str | None = None
    """The older name of `local_database_address`."""
    llm_model: str | None = None
    prompt_type: Literal["mmsearch_r1", "gpt4o"] | None = None
    """Taken and not used, as the next two: there is one prompt, pages are read here, thoughts are cut off."""
    use_jina: bool | None = None
    enable_thinking: bool | None = None
    format: Literal["text", "json"] = "text"
    """Ours: JSON has the parts, their sources and flags; so has it where JSON alone is accepted."""

    @field_validator("query")
    @classmethod
    def _asks_something(cls, query: str) -> str:
        """A blank query would be a paid call that finds nothing."""
        if not query.strip():
            raise ValueError("it holds nothing to search for")
        return query

    @property
    def database(self) -> str | None:
        return self.local_database_address or self.web_search_address or None


class RetrieveBody(_Body):
    """`POST /retrieve`, the contract of Search-R1."""

    queries: list[str] = Field(max_length=4096)
    topk: int | None = Field(default=None, ge=0, le=1000)
    return_scores: bool = False


class ImageBody(_Body):
    """`POST /image_search`: the bytes of a picture, never an address."""

    image: str = Field(min_length=1)
    """Base64, with or without `data:image/...;base64,` before it."""
    top_k: int = Field(default=5, ge=1, le=MAX_TOP_K)

    def raw(self) -> bytes:
        """Raises `Refused` for what is no base64."""
        text = "".join((self.image.partition(";base64,")[2] or self.image).split())  # `base64` breaks lines
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise Refused(400, "image: base64 of a picture file is expected") from None


async def read_body(request: Request, kind: type[B], limit: int) -> B:
    """Raises `Refused` for a body that is too large, no JSON, or of another shape."""
    sent = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if sent != "application/json" and not sent.endswith("+json"):
        raise Refused(415, f"content type {sent}: send application/json")
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > limit:
            raise Refused(413, f"the request is over {limit} bytes")
    try:
        return kind.model_validate_json(bytes(raw))
    except ValidationError as error:
        first = first_problem(error)
        raise Refused(422, f"{first.key}: {first.said}" if first.key else first.said) from None


def answer(summary: Summary, *, as_json: bool) -> Response:
    """A summary as text, or with its parts and sources. A degraded one says so in either form."""
    headers = {"X-Degraded": "1"} if summary.degraded else {}
    if as_json:
        return json_response(summary.model_dump(), headers=headers)
    return Response(summary.text or NOTHING, media_type="text/plain; charset=utf-8", headers=headers)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Compact JSON."""
    raw = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(raw, status, headers, media_type="application/json")


def failed(error: Exception) -> Response:
    """A typed error as its status and one line. What is not listed here is a bug and stays one (500).

    A `UserError` is one of who runs the server (Chromium is missing); callers' mistakes are `Refused`.
    """
    status, kind, wait = _status(error)
    service = error.service if isinstance(error, ServiceError) else "request"
    if isinstance(error, UserError):
        service = "server"
    headers = {} if wait is None else {"Retry-After": str(max(1, math.ceil(wait)))}
    body = {"error": {"type": kind, "service": service, "message": str(error)}}
    return json_response(body, status, headers)


def _status(error: Exception) -> tuple[int, str, float | None]:
    kind = type(error).__name__
    if isinstance(error, Refused):
        return error.status, "Refused", None
    if isinstance(error, UserError):
        return 502, "Misconfigured", None
    if isinstance(error, Busy):
        return 429, kind, error.retry_after_s
    if isinstance(error, TimeoutError):
        return 504, "DeadlineExceeded", None
    assert isinstance(error, ServiceError)
    if isinstance(error, RateLimitedError | TransientError):
        return 503, kind, error.retry_after_s if error.retry_after_s is not None else 1.0
    return 502, kind, None
