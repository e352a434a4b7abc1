"""robots.txt (RFC 9309), kept for an hour a site."""

from __future__ import annotations

import time
from collections import OrderedDict

from protego import Protego

from vlagent.errors import PermanentError
from vlagent.search.cache.flight import SingleFlight
from vlagent.search.pages.encoding import decoded
from vlagent.search.pages.fetch import Fetcher, Refused, parsed

_KEPT_S = 3600.0
_SITES = 2000
_MAX_BYTES = 500_000


class Robots:
    """Whether a site wants a page to be read by a program."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._rules: OrderedDict[str, tuple[float, Protego]] = OrderedDict()
        self._flights = SingleFlight()

    async def check(self, url: str) -> None:
        """Raises `PermanentError` where the site says no, and what reading its rules raises (5xx: it may say no)."""
        place = parsed(url)
        origin = f"{place.scheme}://{place.netloc.decode('ascii')}"
        rules = self._known(origin)
        if rules is None:
            rules = await self._flights.run(origin, lambda: self._read(origin))
        if not rules.can_fetch(url, self._fetcher.config.user_agent):
            raise PermanentError("page", f"{place.host}: its robots.txt does not want this page to be read")

    def _known(self, origin: str) -> Protego | None:
        found = self._rules.get(origin)
        return found[1] if found and found[0] > time.monotonic() else None

    async def _read(self, origin: str) -> Protego:
        try:
            answer = await self._fetcher.get(f"{origin}/robots.txt", max_bytes=_MAX_BYTES)
            text = decoded(answer.data, "utf-8")
        except Refused:
            text = ""
        rules = Protego.parse(text)
        self._rules[origin] = (time.monotonic() + _KEPT_S, rules)
        while len(self._rules) > _SITES:
            self._rules.popitem(last=False)
        return rules
