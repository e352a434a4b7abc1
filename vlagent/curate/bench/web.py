"""Reading sites for pictures with manners: through the guard, by robots.txt, reservations and licences, with pauses."""

from __future__ import annotations

import asyncio
import json
import re
import time
from dataclasses import dataclass, field
from fnmatch import fnmatch
from urllib.parse import urlsplit

import httpx

from vlagent.curate.bench.config import CollectRules
from vlagent.curate.bench.sources import Lead
from vlagent.errors import PermanentError
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.fetch import Fetched, Fetcher, Refused
from vlagent.search.pages.guard import Guard, Resolver, system_resolver
from vlagent.search.pages.robots import Robots

_TDM = "/.well-known/tdmrep.json"


class Unlicensed(PermanentError):
    """Nothing permits the picture to be taken."""


@dataclass
class Web:
    """Fetches one thing at a time from each site."""

    rules: CollectRules
    transport: httpx.AsyncBaseTransport | None = None
    resolver: Resolver = system_resolver
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict)
    _last: dict[str, float] = field(default_factory=dict)
    _reserved: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rules = self.rules
        pages = PageConfig(
            max_bytes=round(rules.max_mb * 1e6),
            timeout_s=60,
            user_agent=rules.user_agent,
            ports=rules.ports,
            allow=rules.allow,
        )
        self.fetcher = Fetcher(pages, Guard(rules.ports, rules.allow, self.resolver), self.transport)
        self._robots = Robots(self.fetcher)

    async def get(self, url: str) -> Fetched:
        """The answer of an address that robots.txt and the site's reservations allow. Raises `ServiceError`."""
        host = host_of(url)
        async with self._locks.setdefault(host, asyncio.Lock()):
            await self._check(url)
            wait = self._last.get(host, -1e9) + self.rules.pause_s - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            try:
                answer = await self.fetcher.get(url, check=self._check)
            finally:
                self._last[host] = time.monotonic()
        if answer.cut:
            raise PermanentError("collect", f"{url}: more than {self.rules.max_mb:g} MB")
        return answer

    async def aclose(self) -> None:
        """Close the connections."""
        await self.fetcher.aclose()

    def licence_of(self, lead: Lead) -> tuple[str, str]:
        """(licence, where it stands) of a picture. Raises `Unlicensed` for none, or one that the rules do not accept.

        The page's site counts before the picture's, which is often a bare store of files.
        """
        licence, origin = lead.licence, lead.licence_from
        if not licence:
            hosts = [host_of(address) for address in (lead.page, lead.address) if address]
            known = next((name for name in hosts if name in self.rules.hosts), None)
            if known is None:
                name = hosts[0] if hosts else lead.address
                raise Unlicensed(
                    "collect", f'no licence is stated; if its terms permit it, add [collect.hosts."{name}"]'
                )
            licence, origin = self.rules.hosts[known].licence, self.rules.hosts[known].terms or "bench.toml"
        if not any(fnmatch(licence.lower(), pattern.lower()) for pattern in self.rules.licences):
            raise Unlicensed("collect", f"licence {licence!r} is none of collect.licences")
        return licence, origin

    def permits(self, url: str) -> bool:
        """Whether an agreement with the site is on record: it overrides a general reservation."""
        return host_of(url) in self.rules.hosts

    async def _check(self, url: str) -> None:
        """Raises `PermanentError` for what the site does not want to be taken; asked again where it redirects to."""
        await self._robots.check(url)
        await self._check_reservation(url)

    async def _check_reservation(self, url: str) -> None:
        """The TDM Reservation Protocol (W3C community group): a file that names what is reserved."""
        if self.permits(url):
            return
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._reserved:
            self._reserved[origin] = await self._reservations(origin)
        if any(_covers(location, parts.path or "/") for location in self._reserved[origin]):
            raise PermanentError("collect", f"{parts.netloc} reserves this ({_TDM})")

    async def _reservations(self, origin: str) -> list[str]:
        try:
            answer = await self.fetcher.get(origin + _TDM, max_bytes=100_000)
            rules = json.loads(answer.data)
        except (Refused, ValueError):
            return []
        entries = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
        return [str(rule.get("location", "/*")) for rule in entries if rule.get("tdm-reservation") == 1]


def _covers(location: str, path: str) -> bool:
    """`*` stands for anything, a `$` at the end for the end; a location covers what begins with it."""
    pattern = re.escape(location).replace(r"\*", ".*")
    pattern = pattern.removesuffix(r"\$") + "$" if location.endswith("$") else pattern
    return re.match(pattern, path) is not None


def host_of(url: str) -> str:
    """Lower case, without a port; empty where there is none."""
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def is_web(address: str) -> bool:
    """Whether an address is of the web rather than a file."""
    return address.lower().startswith(("http://", "https://"))
