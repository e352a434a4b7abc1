"""How a server is run."""

from __future__ import annotations

import ipaddress
from typing import Literal, Self

from pydantic import Field, model_validator

from vlagent.types import Record

KEY_NAMES = ("VLAGENT_SERVER_KEY",)
"""The key that callers must send, as `Authorization: Bearer KEY` or `X-API-Key: KEY`."""
SEARCH_PORT, RETRIEVAL_PORT = 8000, 8001


class ServerOptions(Record):
    """Where a server listens, what callers may ask for, and how much at one time."""

    host: str = "127.0.0.1"
    port: int = Field(default=SEARCH_PORT, ge=0, le=65535)
    databases: tuple[str, ...] = ()
    """Addresses of retrieval servers that a caller may name; any other one is refused."""
    models: tuple[str, ...] = ()
    """Summarisers that a caller may name (`llm_model`), besides the configured one."""
    at_once: int = Field(default=64, ge=1)
    """Queries being answered; what is cached or shared with another caller takes no place."""
    waiting: int = Field(default=256, ge=0)
    """Queries that wait for a place; the next one is told to come back (429)."""
    deadline_s: float = Field(default=60.0, gt=0)
    """Of one request, waiting included."""
    max_request_bytes: int = Field(default=20_000_000, gt=0)
    drain_s: float = Field(default=30.0, ge=0)
    """How long requests that are running may go on after a signal to stop."""
    log: Literal["info", "debug"] = "info"
    """`debug` also writes queries; keys are never written."""

    @model_validator(mode="after")
    def _databases_are_addresses(self) -> Self:
        for address in self.databases:
            if not address.startswith(("http://", "https://")):
                raise ValueError(f"database {address!r}: write it as http://HOST:PORT")
        return self

    @property
    def is_private(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
