"""An address to the text behind it: httpx first, Chromium where a page needs it."""

from __future__ import annotations

import asyncio
import importlib.util

import httpx

from vlagent.errors import PermanentError, ServiceError, TransientError, UserError
from vlagent.search.base import Page
from vlagent.search.pages.browser import NEEDED, Browsers
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.extract import Extracted
from vlagent.search.pages.fetch import Fetched, Fetcher
from vlagent.search.pages.guard import Guard, Resolver, system_resolver
from vlagent.search.pages.robots import Robots
from vlagent.search.pages.workers import Workers

_TRIES = 2
_PAUSE_S = 0.2


class WebPages:
    """A `PageReader` of the public web. Close it with `aclose`."""

    def __init__(
        self,
        config: PageConfig | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        resolver: Resolver = system_resolver,
    ) -> None:
        """`transport` replaces the network, `resolver` the look-up of names (tests). Raises `UserError` where Chromium
        is asked for every page and Playwright is not installed.
        """
        self.config = config or PageConfig()
        self.guard = Guard(self.config.ports, self.config.allow, resolver)
        self.fetcher = Fetcher(self.config, self.guard, transport)
        self.browsers = Browsers(self.config, self.guard)
        self._robots = Robots(self.fetcher)
        self._workers = Workers(self.config.workers, self.config.max_chars)
        self._slots: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None
        self._has_browser = importlib.util.find_spec("playwright") is not None
        if self.config.javascript == "always" and not self._has_browser:
            raise UserError(f'pages.javascript = "always": {NEEDED}')

    async def read(self, url: str) -> Page:
        """Title and text. Raises `Blocked` (private address), `PermanentError` (no such page, not text, robots.txt),
        `RateLimitedError` and `TransientError` (time is up, connection failed, 5xx), at the latest after `timeout_s`.
        """
        async with self._slot():
            try:
                async with asyncio.timeout(self.config.timeout_s):
                    return await self._read(url)
            except TimeoutError:
                raise TransientError("page", f"{_host(url)}: not read within {self.config.timeout_s:g} s") from None

    async def aclose(self) -> None:
        """Close connections, browsers and worker processes."""
        await self.browsers.aclose()
        await self._workers.aclose()
        await self.fetcher.aclose()

    def _slot(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._slots is None or self._slots[0] is not loop:
            self._slots = (loop, asyncio.Semaphore(self.config.concurrency))
        return self._slots[1]

    async def _read(self, url: str) -> Page:
        if self.config.javascript == "always":
            return await self._rendered(url)
        page = await self._fetched(url)
        found = await self._text_of(page)
        if found.needs_javascript and self.config.javascript == "auto" and self._has_browser:
            return await self._rendered(page.url)
        return _page(page.url, found)

    async def _rendered(self, url: str) -> Page:
        if self.config.robots:
            await self._robots.check(url)
        page = await self.browsers.render(url)
        if self.config.robots and page.url != url:  # the browser follows redirects by itself
            await self._robots.check(page.url)
        return _page(page.url, await self._text_of(page))

    async def _text_of(self, page: Fetched) -> Extracted:
        if page.cut and (page.content_type == "application/pdf" or page.data.startswith(b"%PDF-")):
            raise PermanentError("page", f"{page.url}: a PDF over {self.config.max_bytes / 1e6:g} MB")
        return await self._workers.extract(page)

    async def _fetched(self, url: str) -> Fetched:
        """Tried again once where that may help; a site that asks for patience is not worth waiting for."""
        for left in range(_TRIES - 1, -1, -1):
            try:
                return await self.fetcher.get(url, check=self._robots.check if self.config.robots else None)
            except ServiceError as error:
                if not left or not isinstance(error, TransientError) or (error.retry_after_s or 0) > 1:
                    raise
                await asyncio.sleep(error.retry_after_s or _PAUSE_S)
        raise AssertionError("the last try returns or raises")


def _page(url: str, found: Extracted) -> Page:
    if not found.text.strip():
        raise PermanentError("page", f"{_host(url)}: the page holds no text")
    return Page(url=url, title=found.title, text=found.text)


def _host(url: str) -> str:
    try:
        return httpx.URL(url).host or "page"
    except (httpx.InvalidURL, UnicodeError):
        return "page"
