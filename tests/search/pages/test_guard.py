"""No page leads inwards: address forms, names, redirects, name servers that change their mind, the browser's proxy."""

from __future__ import annotations

import asyncio
from functools import partial

import httpx
import pytest

from tests.search.pages.sites import Names, html, serving
from tests.search.web.answers import Network
from vlagent.errors import PermanentError, TransientError
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.guard import Blocked, Guard, is_public
from vlagent.search.pages.proxy import BLOCKED_HEADER, CheckingProxy
from vlagent.search.pages.reader import WebPages

INWARD = [
    "http://127.0.0.1/",
    "http://127.8.9.10/",
    "http://127.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://0/",
    "http://0.0.0.0/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://localhost/",
    "http://localhost./",
    "http://LOCALHOST/",
    "http://foo.localhost/",
    "http://db.internal/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://printer.local/",
    "http://10.0.0.5/",
    "http://172.16.3.4/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://198.18.0.1/",
    "http://203.0.113.7/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::1]/",
    "http://[::]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[2001::1]/",
    "http://[2001:db8::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[3fff::1]/",
    "http://[100::1]/",
    "http://example.com:22/",
    "http://example.com:6379/",
    "http://user:pass@example.com/",
    "http://example.com@127.0.0.1/",
    "https://127.0.0.1/",
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://example.com/",
    "data:text/html,hello",
    "//example.com/",
    "http:///path",
    "http://exa mple.com/",
]


@pytest.mark.parametrize("url", INWARD)
async def test_what_leads_inwards_is_blocked_before_anything_is_sent(url: str) -> None:
    pages = WebPages(PageConfig(timeout_s=5, robots=False, workers=0))
    with pytest.raises(Blocked):
        await pages.read(url)


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "127.0.0.1",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "fe80::1%eth0",
        "100.64.9.9",
        "169.254.169.254",
    ],
)
async def test_a_public_name_with_a_private_address_is_blocked(address: str) -> None:
    guard = Guard(resolver=Names(example_com=[[address]]))
    with pytest.raises(Blocked, match="not on the public internet"):
        await guard.addresses("example.com", 80)


async def test_one_private_address_among_public_ones_is_enough() -> None:
    with pytest.raises(Blocked):
        await Guard(resolver=Names(example_com=[["93.184.216.34", "10.0.0.1"]])).addresses("example.com", 443)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "1.1.1.1"])
async def test_ordinary_addresses_pass(address: str) -> None:
    assert is_public(address)
    assert await Guard(resolver=Names(example_com=[[address]])).addresses("example.com", 443) == [address]


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com:443/a?b=c",
        "https://müller.example/ä",
        "http://example.com:80/#top",
        "https://a.b.c.example./",
    ],
)
def test_ordinary_urls_pass(url: str) -> None:
    Guard().check_url(httpx.URL(url))


async def test_names_without_an_address_are_a_failure_of_the_world() -> None:
    async def nobody(host: str, port: int) -> list[str]:
        raise OSError("Name or service not known")

    with pytest.raises(TransientError, match="no address"):
        await Guard(resolver=nobody).addresses("example.com", 80)


def moved_to(target: str, _: httpx.Request) -> httpx.Response:
    return httpx.Response(302, headers={"location": target})


async def test_every_redirect_is_checked() -> None:
    targets = [
        "http://127.0.0.1/",
        "http://169.254.169.254/",
        "ftp://example.com/",
        "http://[::1]/",
        "http://example.com:22/",
    ]
    for target in targets:
        network = Network(partial(moved_to, target))
        pages = WebPages(PageConfig(robots=False, workers=0), transport=network)
        with pytest.raises(Blocked):
            await pages.read("http://example.com/start")
        assert len(network.requests) == 1
    endless = Network(lambda request: httpx.Response(301, headers={"location": f"{request.url.path}x"}))
    with pytest.raises(PermanentError, match="more than 2 redirects"):
        await WebPages(PageConfig(robots=False, workers=0, redirects=2), transport=endless).read("http://example.com/")


async def test_a_name_that_changes_between_check_and_connect_changes_nothing() -> None:
    with serving({"/": html("secret")}) as site:
        names = Names(rebind_example=[["203.0.113.99"], ["127.0.0.1"]])
        config = PageConfig(robots=False, workers=0, ports=(site.port,), timeout_s=3)
        with pytest.raises(Blocked):
            await WebPages(config, resolver=names).read(f"http://rebind.example:{site.port}/")
        assert len(names.asked) == 1
        with pytest.raises(Blocked):
            await WebPages(config, resolver=names).read(f"http://rebind.example:{site.port}/")
        assert site.seen == []


async def test_the_connection_goes_to_the_checked_address_with_the_name_of_the_url() -> None:
    with serving({"/": html("The tower opened in 1931. " * 20)}) as site:
        names = Names(wiki_example=[["127.0.0.1"], ["10.9.9.9"]])
        config = PageConfig(robots=False, workers=0, ports=(site.port,), allow=("127.0.0.0/8",), timeout_s=5)
        pages = WebPages(config, resolver=names)
        page = await pages.read(f"http://wiki.example:{site.port}/")
        assert "1931" in page.text
        assert names.asked == ["wiki.example"]
        await pages.aclose()


async def test_proxies_of_the_environment_play_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving({"/": html("a page through a proxy " * 30)}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://{proxy.host}")
        monkeypatch.setenv("ALL_PROXY", f"http://{proxy.host}")
        with pytest.raises(Blocked):
            await WebPages(PageConfig(robots=False, workers=0)).read("http://10.0.0.1/")
        assert proxy.seen == []


async def test_what_is_allowed_by_name_or_network_is_read_and_nothing_else() -> None:
    guard = Guard(allow=("wiki.corp:8080", "10.1.0.0/16"), resolver=Names(wiki_corp=[["10.9.0.1"]]))
    assert await guard.addresses("wiki.corp", 8080) == ["10.9.0.1"]
    with pytest.raises(Blocked):
        await guard.addresses("wiki.corp", 80)
    guard.check_url(httpx.URL("http://10.1.2.3:9999/"))
    with pytest.raises(Blocked):
        guard.check_url(httpx.URL("http://10.2.2.3:9999/"))


async def through_the_proxy(guard: Guard, request: bytes) -> bytes:
    proxy = CheckingProxy(guard)
    address = httpx.URL(await proxy.start())
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await proxy.aclose()
    return answer


@pytest.mark.parametrize(
    "target",
    [
        "127.0.0.1:443",
        "localhost:443",
        "169.254.169.254:80",
        "[::1]:443",
        "10.0.0.1:443",
        "[64:ff9b::7f00:1]:443",
        "8.8.8.8:22",
    ],
)
async def test_the_browsers_tunnels_are_checked(target: str) -> None:
    answer = await through_the_proxy(Guard(), f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://metadata.google.internal/",
        "file:///etc/passwd",
        "/etc/passwd",
        "nonsense",
    ],
)
async def test_the_browsers_plain_requests_are_checked(url: str) -> None:
    answer = await through_the_proxy(Guard(), f"GET {url} HTTP/1.1\r\nHost: example.com\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403")


async def test_a_name_without_an_address_is_not_said_to_lead_inwards() -> None:
    """The browser says of the one that it may be tried again, of the other that it never may."""
    request = b"GET http://gone.example/ HTTP/1.1\r\nHost: gone.example\r\n\r\n"
    nowhere = await through_the_proxy(Guard(resolver=Names(gone_example=[[]])), request)
    inwards = await through_the_proxy(Guard(resolver=Names(gone_example=[["10.0.0.1"]])), request)
    assert nowhere.startswith(b"HTTP/1.1 502")
    assert inwards.startswith(b"HTTP/1.1 403")
    assert [BLOCKED_HEADER.encode() in answer for answer in (nowhere, inwards)] == [False, True]


async def test_the_proxy_resolves_once_and_connects_to_what_it_checked() -> None:
    with serving({"/": html("hello")}) as site:
        names = Names(rebind_example=[["198.51.100.1"], ["127.0.0.1"]])
        guard = Guard(ports=(site.port,), resolver=names)
        request = f"GET http://rebind.example:{site.port}/ HTTP/1.1\r\nHost: rebind.example\r\n\r\n".encode()
        assert (await through_the_proxy(guard, request)).startswith(b"HTTP/1.1 403")
        assert site.seen == []
        allowed = Guard(allow=(f"rebind.example:{site.port}",), resolver=Names(rebind_example=[["127.0.0.1"]]))
        assert b"hello" in await through_the_proxy(allowed, request)
