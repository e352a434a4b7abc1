"""What a refusal says about when to come back."""

from __future__ import annotations

import email.utils
import time

import pytest

from vlagent.chat.failures import failure, retry_after_s
from vlagent.errors import PermanentError, QuotaError, ServiceError, TransientError

WAITS = {"7": 7.0, "0": 0.0, "1.5": 1.5, "-3": 0.0, "soon": None, "nan": None, "inf": None, "": None}


@pytest.mark.parametrize("value", WAITS)
def test_seconds_are_read_and_nonsense_is_not(value: str) -> None:
    assert retry_after_s({"retry-after": value}) == WAITS[value]


def test_milliseconds_win_and_a_date_is_a_wait() -> None:
    assert retry_after_s({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    later = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 55 <= (retry_after_s({"retry-after": later}) or 0) <= 60
    earlier = email.utils.formatdate(time.time() - 60, usegmt=True)
    assert retry_after_s({"retry-after": earlier}) == 0
    assert retry_after_s({}) is None


STATUSES = {402: QuotaError, 408: TransientError, 409: TransientError, 413: PermanentError, 422: PermanentError,
            502: TransientError, 529: TransientError}  # fmt: skip


@pytest.mark.parametrize("status", STATUSES)
def test_each_status_has_its_type(status: int) -> None:
    assert type(failure("m", status, {}, b"{}")) is STATUSES[status]


@pytest.mark.parametrize(
    "body", [b"", b"<html>\n<p>Bad</p>", b"\xff\xfe", b"[]", b'"x"', b'{"error": "text"}', b'{"error": null}']
)
def test_any_body_gives_one_line(body: bytes) -> None:
    error = failure("m", 500, {}, body)
    assert isinstance(error, ServiceError)
    assert "\n" not in str(error)
    assert str(error).startswith("m: HTTP 500: ")
