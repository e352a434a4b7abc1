"""Which addresses may be connected to. The text of the web chooses the URLs that we fetch: none may lead inwards.

`ipaddress.is_global` passes NAT64, 6to4 and multicast, so the list of what is refused is written out here
(IANA's special-purpose registries, and the metadata services of clouds).
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence

import httpx

from vlagent.errors import PermanentError, TransientError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to addresses; raises OSError."""

_REFUSED_V4 = """0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 168.63.129.16/32 169.254.0.0/16 172.16.0.0/12
192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"""
_REFUSED_V6 = """2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20"""
"""Inside 2000::/3; all that lies outside of it (loopback, mapped, NAT64, local, link, multicast) is refused as well."""
REFUSED = tuple(ipaddress.ip_network(text) for text in f"{_REFUSED_V4} {_REFUSED_V6}".split())
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_INWARD_NAMES = ("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp", "home.arpa")


class Blocked(PermanentError):
    """The address leads to this machine, to a private network, or is of a kind that is not read."""


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the public internet."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and (found.scope_id or found not in _PUBLIC_V6):
        return False
    return not any(found in network for network in REFUSED if network.version == found.version)


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """The addresses that the system knows for a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Guard:
    """Checks URLs, and turns hosts into addresses that may be connected to."""

    def __init__(
        self, ports: Sequence[int] = (80, 443), allow: Sequence[str] = (), resolver: Resolver = system_resolver
    ) -> None:
        """`allow` holds hosts, `host:port` pairs and networks that are exempt."""
        self._ports = frozenset(ports)
        self._networks, self._hosts = _sorted(allow)
        self._resolver = resolver

    def check_url(self, url: httpx.URL) -> None:
        """Raises `Blocked` for another scheme, a name and password, a port or a name that is not read."""
        if url.scheme not in ("http", "https"):
            raise Blocked("page", f"only http and https are read, not {url.scheme or 'an address without scheme'!r}")
        if url.userinfo:
            raise Blocked("page", "an address with a user name or password is not read")
        self._check_host(_name(url.host), url.port or {"http": 80, "https": 443}[url.scheme])

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where to connect to, every one checked. Raises `Blocked` where any of them is private, `TransientError` where
        the name has no address.
        """
        name = _name(host)
        self._check_host(name, port)
        try:
            found = list(await self._resolver(name, port))
        except (OSError, UnicodeError) as error:
            raise TransientError("page", f"{name}: no address for this name ({error})") from None
        if not found:
            raise TransientError("page", f"{name}: no address for this name")
        if not self._is_exempt(name, port):
            for address in found:
                self._check_address(name, address)
        return found

    def _check_host(self, name: str, port: int) -> None:
        if self._is_exempt(name, port):
            return
        if not re.fullmatch(r"[\w.:-]+", name):
            raise Blocked("page", "the address names no host" if not name else f"{name!r} is no host")
        if port not in self._ports and not self._in_allowed_network(name):
            raise Blocked("page", f"port {port} of {name} is not read")
        if any(name == inward or name.endswith(f".{inward}") for inward in _INWARD_NAMES):
            raise Blocked("page", f"{name} is a name inside a private network")
        if _is_address(name):
            self._check_address(name, name)

    def _check_address(self, name: str, address: str) -> None:
        if not is_public(address) and not self._in_allowed_network(address):
            raise Blocked("page", f"{name} is not on the public internet ({address})")

    def _is_exempt(self, name: str, port: int) -> bool:
        return name in self._hosts or f"{name}:{port}" in self._hosts

    def _in_allowed_network(self, address: str) -> bool:
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks if network.version == found.version)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _name(host: str) -> str:
    """As it is compared: lower case, no brackets, no dot at the end."""
    return host.strip("[]").rstrip(".").lower()


def _sorted(allow: Sequence[str]) -> tuple[list[Network], frozenset[str]]:
    networks: list[Network] = []
    hosts: set[str] = set()
    for entry in allow:
        try:
            networks.append(ipaddress.ip_network(entry))
        except ValueError:
            hosts.add(entry.lower())
    return networks, frozenset(hosts)
