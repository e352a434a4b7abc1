"""Pages to text: encodings, caps, kinds, robots.txt, deadlines."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Any

import httpx
import pytest

from tests.search.pages.sites import ARTICLE, html, serving
from tests.search.web.answers import Network
from vlagent.config import make_config
from vlagent.errors import PermanentError, RateLimitedError, TransientError, UserError
from vlagent.search.base import Page
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.encoding import decoded
from vlagent.search.pages.extract import extract
from vlagent.search.pages.reader import WebPages

FAST: dict[str, Any] = {"robots": False, "workers": 0, "timeout_s": 100}
URL = "http://example.com/page"


def reading(answer: Any, **config: Any) -> tuple[WebPages, Network]:
    network = answer if isinstance(answer, Network) else Network(answer)
    return WebPages(PageConfig.model_validate(FAST | config), transport=network), network


async def read(body: bytes, kind: str = "text/html", headers: dict[str, str] | None = None, **config: Any) -> Page:
    head = {"content-type": kind, **(headers or {})}
    pages, _ = reading(lambda _: httpx.Response(200, headers=head, stream=httpx.ByteStream(body)), **config)
    return await pages.read(URL)


async def test_a_page_is_its_title_and_its_main_text() -> None:
    menu = "<nav>" + "<a href='/x'>Menu item</a>" * 50 + "</nav>"
    page = await read(html(f"{menu}<main><article>{ARTICLE}</article></main><footer>Imprint</footer>"))
    assert page.title == "Belmont Tower"
    assert "opened in 1931" in page.text
    assert "Menu item" not in page.text


@pytest.mark.parametrize(
    ("encoding", "text", "declared", "in_header"),
    [
        ("utf-8", "Brücke über die Straße", "utf-8", True),
        ("iso-8859-1", "Café Müller déjà vu", "iso-8859-1", True),
        ("cp1252", "“quoted” – €5", "iso-8859-1", True),
        ("shift_jis", "国立競技場は東京にあります", "Shift_JIS", False),
        ("euc-kr", "서울 타워는 서울에 있습니다", "euc-kr", False),
        ("gb18030", "北京国家体育场位于北京", "gb2312", False),
        ("koi8-r", "Московский мост открыт", "koi8-r", True),
        ("utf-16", "Brücke mit Zeichen", "utf-16", True),
        ("utf-8-sig", "Brücke mit Marke", "windows-1252", True),
        ("utf-8", "Brücke, falsch erklärt", "shift_jis", False),
    ],
)
async def test_every_encoding_is_read(encoding: str, text: str, declared: str, in_header: bool) -> None:
    head = "" if in_header else f'<meta charset="{declared}">'
    body = html(f"<p>{text}</p>" * 30, head=head).decode().encode(encoding)
    page = await read(body, f"text/html; charset={declared}" if in_header else "text/html")
    assert text in page.text


def test_bytes_of_no_encoding_never_raise() -> None:
    for junk in (b"", b"\xff\xfe\x00", bytes(range(256)) * 4, b"\x80" * 100):
        assert isinstance(decoded(junk, "no-such-charset"), str)


async def test_bytes_and_letters_are_capped() -> None:
    page = await read(
        html("<p>Seven words stand in this long sentence.</p>" * 20_000), max_bytes=200_000, max_chars=5_000
    )
    assert len(page.text) == 5_000


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
async def test_compressed_pages_are_read(encoding: str) -> None:
    raw = html(ARTICLE)
    packer = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(raw),
        "deflate": zlib.compress(raw),
        "raw deflate": packer.compress(raw) + packer.flush(),
    }[encoding]
    assert "1931" in (await read(packed, headers={"content-encoding": encoding.split()[-1]})).text


async def test_a_bomb_is_cut_at_the_cap() -> None:
    bomb = gzip.compress(html("<p>boom and more</p>" * 200_000))
    assert len(bomb) < 20_000
    page = await read(bomb, headers={"content-encoding": "gzip"}, max_bytes=60_000)
    assert 0 < len(page.text) <= 30_000


async def test_broken_compression_is_transient_and_unasked_encodings_are_refused() -> None:
    with pytest.raises(TransientError):
        await read(b"\x1f\x8b not gzip", headers={"content-encoding": "gzip"})
    with pytest.raises(PermanentError, match="'br' was not asked for"):
        await read(b"xx", headers={"content-encoding": "br"})


def pdf(text: str) -> bytes:
    """One page that says `text`."""
    stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, io.SEEK_END)
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj" % number + each + b"endobj\n")
    start = out.tell()
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    out.write(b"xref\n0 6\n0000000000 65535 f \n" + table)
    out.write(b"trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start)
    return out.getvalue()


async def test_pdf_is_read_whatever_the_server_calls_it() -> None:
    for kind in ("application/pdf", "application/octet-stream"):
        assert "opened in 1931" in (await read(pdf("The tower was opened in 1931."), kind)).text
    with pytest.raises(PermanentError, match="PDF"):
        await read(b"%PDF-1.4 and then nothing", "application/pdf")
    with pytest.raises(PermanentError, match="PDF over"):
        await read(pdf("x" * 3000), "application/pdf", max_bytes=2000)


async def test_what_is_no_text_is_refused() -> None:
    for kind, body in (("image/png", b"\x89PNG"), ("text/plain", b"\0\0\0\1"), ("application/zip", b"PK")):
        with pytest.raises(PermanentError):
            await read(body, kind)
    with pytest.raises(PermanentError, match="no text"):
        await read(html(""))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (404, PermanentError),
        (403, PermanentError),
        (429, RateLimitedError),
        (500, TransientError),
        (503, TransientError),
    ],
)
async def test_a_sites_refusal_is_typed(status: int, kind: type[Exception]) -> None:
    pages, network = reading(lambda _: httpx.Response(status))
    with pytest.raises(kind):
        await pages.read(URL)
    assert len(network.requests) == (2 if kind is TransientError else 1)


async def test_a_stumble_is_tried_again() -> None:
    network = Network(lambda _: httpx.Response(500 if len(network.requests) < 2 else 200, html=html(ARTICLE).decode()))
    assert "1931" in (await reading(network)[0].read(URL)).text


async def test_cookies_live_for_one_page_only() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if "seen=1" in request.headers.get("cookie", ""):
            return httpx.Response(200, html=html(ARTICLE).decode())
        return httpx.Response(302, headers={"location": "/page", "set-cookie": "seen=1; Path=/"})

    pages, network = reading(answer)
    await pages.read(URL)
    await pages.read(URL)
    assert ["cookie" in request.headers for request in network.requests] == [False, True, False, True]


async def test_robots_txt_is_obeyed_and_can_be_switched_off() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/robots.txt":
            return httpx.Response(200, text="User-agent: *\nDisallow: /private/\n")
        return httpx.Response(200, html=html(ARTICLE).decode())

    pages, network = reading(answer, robots=True)
    with pytest.raises(PermanentError, match=r"robots\.txt"):
        await pages.read("http://example.com/private/a")
    await pages.read("http://example.com/open")
    assert [request.url.path for request in network.requests] == ["/robots.txt", "/open"]
    assert (await reading(answer)[0].read("http://example.com/private/a")).text


async def test_a_site_without_rules_may_be_read_and_one_that_fails_may_not() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        status = {"none.example": 404, "ill.example": 503}[request.url.host]
        return (
            httpx.Response(status) if "robots" in request.url.path else httpx.Response(200, html=html(ARTICLE).decode())
        )

    pages, _ = reading(answer, robots=True)
    assert (await pages.read("http://none.example/a")).text
    with pytest.raises(TransientError):
        await pages.read("http://ill.example/a")


def test_a_page_that_scripts_would_fill_is_known() -> None:
    shells = [
        "<div id='root'></div><script src='a.js'></script>",
        "<div id='__next'></div><script>x()</script>",
        "<noscript>You need to enable JavaScript to run this app.</noscript><script src='a.js'></script>",
    ]
    assert [extract(html(shell), "text/html").needs_javascript for shell in shells] == [True] * 3
    assert not extract(html(ARTICLE + "<script>track()</script>"), "text/html").needs_javascript
    assert not extract(html("<p>Short but whole.</p>"), "text/html").needs_javascript


async def test_a_page_past_its_deadline_is_transient() -> None:
    with serving({"/slow": html(ARTICLE)}) as site:
        pages = WebPages(PageConfig(robots=False, workers=0, timeout_s=0.3, allow=(site.host,)))
        with pytest.raises(TransientError, match=r"within 0.3 s"):
            await pages.read(site.url("/slow"))
        await pages.aclose()


async def test_workers_read_what_threads_read_and_survive_being_killed() -> None:
    body = html(ARTICLE)
    pages, _ = reading(lambda _: httpx.Response(200, html=body.decode()), workers=1)
    first = await pages.read(URL)
    assert first == await reading(lambda _: httpx.Response(200, html=body.decode()))[0].read(URL)
    pages._workers._idle[0].kill()
    assert await pages.read(URL) == first
    await pages.aclose()


@pytest.mark.parametrize("label", ["idna", "punycode", "undefined", "base64", "zip", "hex", "rot13", "unicode_escape"])
async def test_a_label_of_python_that_is_no_encoding_of_pages_is_passed_over(label: str) -> None:
    body = "Café Müller was opened here in 1931. ".encode("cp1252") * 5
    for page in (
        await read(body, f"text/plain; charset={label}"),
        await read(f"<html><head><meta charset='{label}'></head><body><p>".encode() + body + b"</p></body></html>"),
    ):
        assert "opened here in 1931" in page.text


@pytest.mark.parametrize(
    "url", ["http://xn--/", "http://xn--a-/", "http://a.xn--ls8h=/", "http://[v1.x]/", "http://\ud800/"]
)
async def test_a_host_that_cannot_be_read_is_a_typed_error_wherever_it_stands(url: str) -> None:
    pages, _ = reading(lambda _: httpx.Response(200, text="never"))
    with pytest.raises(PermanentError):
        await pages.read(url)
    moved, _ = reading(lambda _: httpx.Response(302, headers={"location": url.encode("utf-8", "replace").decode()}))
    with pytest.raises(PermanentError):
        await moved.read(URL)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allow", ["10.1.0.5/16"]),
        ("allow", ["http://wiki.corp"]),
        ("allow", ["wiki.corp/path"]),
        ("ports", [0]),
        ("ports", [99999]),
        ("user_agent", "a – b"),
        ("user_agent", "a\nb"),
        ("user_agent", ""),
    ],
)
def test_a_setting_that_could_have_no_effect_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"^{key}"):
        make_config(PageConfig, {key: value})


@pytest.mark.parametrize("target", ["http://example.com/private/a", "http://other.example/a"])
async def test_robots_txt_is_asked_again_where_a_redirect_leads(target: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/robots.txt":
            private = "/private/" if request.url.host == "example.com" else "/"
            return httpx.Response(200, text=f"User-agent: *\nDisallow: {private}\n")
        if request.url.path == "/page":
            return httpx.Response(302, headers={"location": target})
        return httpx.Response(200, html=html(ARTICLE).decode())

    pages, network = reading(answer, robots=True)
    with pytest.raises(PermanentError, match=r"robots\.txt"):
        await pages.read(URL)
    assert target not in [str(request.url) for request in network.requests]
    assert (await reading(answer)[0].read(URL)).text
