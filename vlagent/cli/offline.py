"""`--offline`: nothing leaves this machine, whatever a library or a plug-in tries."""

from __future__ import annotations

import ipaddress
import sys
from typing import Any
from urllib.parse import urlsplit

from vlagent.chat.keys import without_keys
from vlagent.errors import PermanentError, UserError


def is_loopback(host: str | None) -> bool:
    """Whether a host name or address is this machine."""
    if host in (None, "", "localhost", "localhost.localdomain", "ip6-localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host).strip("[]").partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def check_endpoint(base_url: str | None, model: str | None = None) -> None:
    """Refuse an endpoint that is not on this machine."""
    if base_url is None:
        if model and not model.startswith(("toy:", "scripted:", "local:", "shipped:")):
            raise UserError(f"--offline: model {model!r} needs --base-url with an endpoint on this machine")
        return
    try:
        host = urlsplit(base_url if "//" in base_url else f"//{base_url}").hostname
    except ValueError:
        host = None
    if host is None or not is_loopback(host):
        raise UserError(
            f"--offline: {host or without_keys(base_url)} is not this machine; use a loopback address such as 127.0.0.1"
        )


def forbid_network() -> None:
    """From now on any connection or name look-up beyond loopback raises. It cannot be undone in this process."""
    sys.addaudithook(_refuse)


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        host = address[0] if isinstance(address, tuple) and address else None
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0]
    else:
        return
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if not is_loopback(name):
        raise PermanentError("network", f"--offline forbids a connection to {name}")
