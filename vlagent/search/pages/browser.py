"""Pages that need JavaScript, through a few browsers with many contexts.

A browser is replaced after some pages, and at once when it dies; the pages that it was busy with are tried once more.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from vlagent.errors import PermanentError, ServiceError, TransientError, UserError
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.fetch import Fetched
from vlagent.search.pages.guard import Blocked, Guard
from vlagent.search.pages.proxy import BLOCKED_HEADER, CheckingProxy

NEEDED = "JavaScript pages need Chromium through Playwright: pip install 'vlagent[browser]'"
_FLAGS = (
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=OptimizationHints,MediaRouter,DialMediaRouteProvider",
    "--no-first-run",
)
"""Nothing past the proxy: no look-ups of its own, no UDP, no loopback short cut."""
_UNSEEN = frozenset({"image", "media", "font", "stylesheet"})
_CLOSE_S = 3.0
_QUIET_S = 2.5
"""How long scripts may go on loading before the page is taken as it is."""


@dataclass(eq=False)
class _Browser:
    """A running browser."""

    handle: Any
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it ends, by itself or by ours."""
    used: int = 0
    busy: int = 0

    def __post_init__(self) -> None:
        self.handle.on("disconnected", lambda _: self.gone.set())

    @property
    def alive(self) -> bool:
        return bool(self.handle.is_connected()) and not self.gone.is_set()


class Browsers:
    """A pool; started with the first page."""

    def __init__(self, config: PageConfig, guard: Guard) -> None:
        self._config = config
        self._guard = guard
        self._loop: asyncio.AbstractEventLoop | None = None
        self._driver: Any = None
        self._proxy: CheckingProxy | None = None
        self._server = ""
        self.launched = 0
        self._reset()

    def _reset(self) -> None:
        self._pool: list[_Browser] = []
        self._lock = asyncio.Lock()
        self._tabs = asyncio.Semaphore(self._config.browsers * self._config.tabs)

    @property
    def alive(self) -> int:
        """Browsers that run now."""
        return sum(browser.alive for browser in self._pool)

    async def render(self, url: str) -> Fetched:
        """The page as its scripts have made it. Raises typed errors; the caller sets the deadline."""
        place = httpx.URL(url)
        self._guard.check_url(place)
        await self._guard.addresses(place.host, place.port or {"http": 80, "https": 443}[place.scheme])
        if self._loop is not asyncio.get_running_loop():
            self._loop, self._driver = asyncio.get_running_loop(), None
            self._reset()
        async with self._tabs:
            try:
                return await self._in_a_browser(url)
            except _Died:
                pass
            try:
                return await self._in_a_browser(url)
            except _Died as error:
                raise TransientError("page", f"{place.host}: the browser ends while it reads this page") from error

    async def aclose(self) -> None:
        """Close the browsers and the proxy."""
        if self._loop is not asyncio.get_running_loop():
            return
        for browser in self._pool:
            await _closed(browser.handle)
        self._pool = []
        driver, self._driver = self._driver, None
        if driver:
            with suppress(_error_type()):
                await driver.stop()
        if self._proxy:
            await self._proxy.aclose()
            self._proxy = None

    async def _in_a_browser(self, url: str) -> Fetched:
        browser = await self._chosen()
        browser.busy += 1
        try:
            return await _unless(browser.gone, self._read(browser, url))
        except _error_type() as error:
            if not browser.alive or "has been closed" in str(error) or "Connection closed" in str(error):
                raise _Died from error
            raise _typed(url, error) from error
        finally:
            browser.busy -= 1
            if not browser.busy and browser not in self._pool:
                await _closed(browser.handle)

    async def _chosen(self) -> _Browser:
        """The least busy living browser; a worn one leaves the pool, and is closed by its last page."""
        async with self._lock:
            worn = [b for b in self._pool if b.used >= self._config.recycle_after or not b.alive]
            self._pool = [b for b in self._pool if b not in worn]
            for browser in worn:
                if not browser.busy:
                    await _closed(browser.handle)
            if len(self._pool) < self._config.browsers and (not self._pool or min(b.busy for b in self._pool)):
                self._pool.append(await self._launch())
            chosen = min(self._pool, key=lambda b: b.busy)
            chosen.used += 1
            return chosen

    async def _launch(self) -> _Browser:
        try:
            return await self._launched()
        except _error_type() as error:
            await self._drop_driver()
            if "Connection closed" not in str(error):
                raise _not_started(error) from None
        try:
            return await self._launched()
        except _error_type() as error:
            raise _not_started(error) from None

    async def _launched(self) -> _Browser:
        if self._driver is None:
            self._driver = await _start_driver()
            if self._proxy is None:
                self._proxy = CheckingProxy(self._guard)
                self._server = await self._proxy.start()
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        handle = await self._driver.chromium.launch(
            executable_path=self._config.chromium or shutil.which("chromium") or None,
            args=[*_FLAGS, *root],
            proxy={"server": self._server},
            handle_sigint=False,
        )
        self.launched += 1
        return _Browser(handle)

    async def _drop_driver(self) -> None:
        driver, self._driver = self._driver, None
        with suppress(_error_type()):
            await driver.stop()

    async def _read(self, browser: _Browser, url: str) -> Fetched:
        context = await browser.handle.new_context(
            user_agent=None, service_workers="block", accept_downloads=False, ignore_https_errors=False
        )
        try:
            page = await context.new_page()
            await page.route("**/*", _pass_text_only)
            response = await page.goto(url, wait_until="domcontentloaded", timeout=self._config.timeout_s * 1000)
            await _settled(page)
            html = await page.content()
            _refuse(url, response)
            return Fetched(page.url, 200, "text/html", "utf-8", html.encode()[: self._config.max_bytes])
        finally:
            if browser.alive:
                await _closed(context)


class _Died(Exception):
    """The browser went away under a page."""


async def _pass_text_only(route: Any) -> None:
    if route.request.resource_type in _UNSEEN:
        await route.abort()
    else:
        await route.continue_()


async def _settled(page: Any) -> None:
    """Until the network is quiet, or long enough."""
    with suppress(_timeout_type()):
        await page.wait_for_load_state("networkidle", timeout=_QUIET_S * 1000)


def _refuse(url: str, response: Any) -> None:
    if response is None or response.status < 400:
        return
    host = httpx.URL(url).host
    if BLOCKED_HEADER in response.headers:
        raise Blocked("page", f"{host}: it leads to an address that is not on the public internet")
    kind: type[ServiceError] = TransientError if response.status >= 500 else PermanentError
    raise kind("page", f"{host}: HTTP {response.status}")


def _typed(url: str, error: Exception) -> ServiceError:
    host = httpx.URL(url).host
    if isinstance(error, _timeout_type()):
        return TransientError("page", f"{host}: no answer in time")
    if "ERR_TUNNEL_CONNECTION_FAILED" in str(error) or "Download is starting" in str(error):
        return PermanentError("page", f"{host}: the browser cannot show this page")
    return TransientError("page", f"{host}: the browser cannot load it ({str(error).splitlines()[0][:120]})")


def _not_started(error: Exception) -> UserError:
    return UserError(f"Chromium does not start ({str(error).splitlines()[0][:160]}); name it: pages.chromium = PATH")


async def _closed(handle: Any) -> None:
    """Close a context or a browser; one that is dead may never answer."""
    with suppress(_error_type(), TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await handle.close()


async def _unless(gone: asyncio.Event, work: Coroutine[Any, Any, Fetched]) -> Fetched:
    """The work's outcome, or `_Died`: what was asked of a browser that dies is not always answered."""
    working, dying = asyncio.ensure_future(work), asyncio.ensure_future(gone.wait())
    try:
        await asyncio.wait((working, dying), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise _Died
        return working.result()
    finally:
        dying.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _start_driver() -> Any:
    try:
        from playwright.async_api import async_playwright
    except ImportError:
        raise UserError(NEEDED) from None
    return await async_playwright().start()


def _error_type() -> type[Exception]:
    try:
        from playwright.async_api import Error
    except ImportError:
        raise UserError(NEEDED) from None
    return Error


def _timeout_type() -> type[Exception]:
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    return PlaywrightTimeout
