"""Secrets come from the environment only and are never shown: not in a repr, a log line, an error or a traceback."""

from __future__ import annotations

import os
import re
from collections.abc import Generator

import httpx
from pydantic import SecretStr

from vlagent.errors import UserError

OPENAI_NAMES = ("VLAGENT_API_KEY", "OPENAI_API_KEY")
AZURE_NAMES = ("VLAGENT_API_KEY", "AZURE_OPENAI_API_KEY")


_IN_URL = (
    (re.compile(r"//[^/?#\s]*@"), "//[key]@"),
    (re.compile(r"([?&][^=&#]*(?:key|token|secret|sig|password|code)[^=&#]*=)[^&#]+", re.IGNORECASE), r"\1[key]"),
)


def without_keys(url: str) -> str:
    """An address as it may be shown: no user name or password, and nothing of a query that looks like a key."""
    for pattern, shown in _IN_URL:
        url = pattern.sub(shown, url)
    return url


def refuse_keys(url: str) -> None:
    """Addresses are kept with a run and shown; raises `UserError` for one that holds a key."""
    if without_keys(url) != url:
        raise UserError(f"base URL {without_keys(url)}: no key in it; the key comes from VLAGENT_API_KEY")


def key_from_environment(names: tuple[str, ...]) -> SecretStr | None:
    """The first of these variables that is set; raises `UserError` where it cannot be a key."""
    for name in names:
        value = os.environ.get(name, "").strip()
        if not value:
            continue
        if not value.isascii() or not value.isprintable() or " " in value:
            raise UserError(f"{name}: the key holds characters that no key has (a blank, a line break, a quote?)")
        return SecretStr(value)
    return None


class KeyAuth(httpx.Auth):
    """Puts the key into each request at the last moment."""

    def __init__(self, key: SecretStr | None, header: str) -> None:
        self._key, self._header = key, header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if self._key:
            value = self._key.get_secret_value()
            request.headers[self._header] = f"Bearer {value}" if self._header == "Authorization" else value
        yield request

    def redact(self, answer: bytes) -> bytes:
        """What a server said without the key, should it have repeated it."""
        return answer.replace(self._key.get_secret_value().encode(), b"[key]") if self._key else answer
