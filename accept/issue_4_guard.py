"""Addresses that lead inwards, through every path that reads a page; what is reached by mistake is on this machine."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

from tests.search.pages.sites import ARTICLE, Names, html, serving
from tests.search.pages.test_browser import FILLED, PRYING
from tests.search.pages.test_guard import INWARD, moved_to
from tests.search.server.world import World
from tests.search.web.answers import Network
from vlagent.errors import ServiceError
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.fetch import parsed
from vlagent.search.pages.guard import Blocked, Guard
from vlagent.search.pages.reader import WebPages

EVERYTHING = ("0.0.0.0/0", "::/0", "localhost")
ADDRESSES = ("10.1.2.3", "127.0.0.1", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::", "100.64.9.9")
TARGETS = ("http://127.0.0.1/", "http://169.254.169.254/", "http://[::1]/", "http://[64:ff9b::7f00:1]/", "file:///etc")
DATABASES = ("http://169.254.169.254", "http://127.0.0.1:6379", "http://[::1]:8001", "file:///etc/passwd")
ORDINARY = ("http://example.com/", "https://example.com:443/a?b=c", "https://müller.example/ä", "https://a.b.example./")


async def direct_probes(broken: bool) -> dict[str, Any]:
    """Forms of addresses, names that lead inwards, and databases that a caller names. Nothing is connected to."""
    allow = EVERYTHING if broken else ()
    guard = Guard(ports=(80, 443), allow=allow, resolver=_itself)
    passed = [url for url in INWARD if await _lets(guard, url)]
    for address in ADDRESSES:
        named = Guard(allow=allow, resolver=Names(example_com=[[address]]))
        passed += [f"example.com={address}"] * await _lets(named, "http://example.com/")
    async with World(options={"databases": ["http://db.example:8001"]}).open() as world:
        for address in DATABASES:
            said = await world.ask("x", retrieval_mode="local", local_database_address=address)
            passed += [f"database {address}"] * (said.status_code != 400)
    return {"probes": len(INWARD) + len(ADDRESSES) + len(DATABASES), "passed": passed}


async def _itself(host: str, _port: int) -> list[str]:
    return [host]


async def _lets(guard: Guard, url: str) -> bool:
    try:
        place = parsed(url)
        guard.check_url(place)
        await guard.addresses(place.host, place.port or 80)
    except ServiceError:
        return False
    return True


async def redirect_probes(broken: bool) -> dict[str, Any]:
    """A redirect to the inside, and a name whose address changes between check and connect."""
    passed = []
    for target in TARGETS:
        network = Network(partial(moved_to, target))
        config = PageConfig(robots=False, workers=0, allow=EVERYTHING if broken else ())
        with suppress(ServiceError):
            await WebPages(config, transport=network).read("http://example.com/start")
        passed += [f"redirect {target}"] * (len(network.requests) > 1)
    with serving({"/": html("secret " * 100)}) as site:
        for first in ("93.184.216.34", "127.0.0.1"):
            names = Names(rebind_example=[[first], ["127.0.0.1"]])
            config = PageConfig(robots=False, workers=0, ports=(site.port,), timeout_s=3)
            with suppress(ServiceError):
                await WebPages(config, resolver=names).read(f"http://rebind.example:{site.port}/")
            passed += [f"rebound {first}"] * bool(site.seen)
    return {"probes": len(TARGETS) + 2, "passed": passed}


async def browser_paths() -> dict[str, Any]:
    """A page's scripts and frames, a redirect and an address, in Chromium."""
    with serving({"/secret": html("the secret of this machine")}) as inner:
        pages = {"/app": html(FILLED), "/prying": html(PRYING % {"port": inner.port})}
        with serving({**pages, "/away": (302, {"Location": inner.url("/secret")}, b"")}) as site:
            web = WebPages(PageConfig(allow=(site.host,), timeout_s=90, workers=0, robots=False))
            await web.browsers.render(site.url("/prying"))
            for blocked in (site.url("/away"), inner.url("/secret")):
                with suppress(Blocked):
                    await web.browsers.render(blocked)
            await web.aclose()
            return {"probes": 7, "passed": list(inner.seen)}


async def ordinary_pages() -> dict[str, Any]:
    """Public addresses pass, and so does a page of this machine that is allowed by name."""
    refused = []
    for url in ORDINARY:
        guard = Guard(resolver=_public)
        refused += [url] * (not await _lets(guard, url))
    with serving({"/": html(ARTICLE)}) as site:
        web = WebPages(PageConfig(allow=(site.host,), robots=False, workers=0, timeout_s=60))
        page = await web.read(site.url("/"))
        refused += [site.host] * ("1931" not in page.text)
        await web.aclose()
    return {"pages": len(ORDINARY) + 1, "refused": refused}


async def _public(_host: str, _port: int) -> list[str]:
    return ["93.184.216.34"]
