"""Pictures from folders and from sites on this machine: manners, licences, resumption."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.curate.bench.conftest import scene
from tests.search.pages.sites import Answer, serving
from vlagent.curate.bench.collect import Collected, Given, collect
from vlagent.curate.bench.config import CollectRules, Host
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.web import Web
from vlagent.errors import PermanentError, UserError
from vlagent.files import write_atomic

XML = {"Content-Type": "application/xml"}
CC = "https://creativecommons.org/licenses/by/4.0/"


def picture(seed: int, folder: Path) -> Answer:
    data = scene(folder / f"{seed}.png", seed, (80, 60)).read_bytes()
    return 200, {"Content-Type": "image/png"}, data


def feed(*items: str, licence: str = f"<license>{CC}</license>") -> Answer:
    return 200, XML, f"<rss><channel>{licence}{''.join(items)}</channel></rss>".encode()


def item(name: str, day: str = "Tue, 03 Jun 2025 10:00:00 GMT") -> str:
    return f'<item><title>{name}</title><pubDate>{day}</pubDate><enclosure url="/{name}" type="image/png"/></item>'


async def gather(bench: Bench, *sources: str, given: Given | None = None, **rules: Any) -> Collected:
    web = Web(CollectRules(**{"pause_s": 0, "allow": ("127.0.0.1",), **rules}))
    return await collect(bench, sources, given, web=web)


@pytest.fixture
def empty(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


async def test_a_folder_is_taken_with_dates_of_exif_and_each_file_once(tmp_path: Path, empty: Bench) -> None:
    source = tmp_path / "photos"
    (source / "deep").mkdir(parents=True)
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2025:04:05 06:07:08"
    scene(source / "a.jpg", 1, (80, 60), exif=exif)
    scene(source / "deep" / "b.png", 2, (80, 60))
    (source / "copy.jpg").write_bytes((source / "a.jpg").read_bytes())
    (source / "broken.png").write_bytes(b"\x89PNG but no more")
    (source / "notes.txt").write_text("not a picture")
    end = await collect(empty, [str(source)], Given(licence="CC0"))
    assert (end.new, len(end.refused)) == (2, 2)
    first, second = empty.pictures().values()
    assert (first.date, first.date_from, first.licence, first.licence_from) == (
        "2025-04-05",
        "exif",
        "CC0",
        "--licence",
    )
    assert (second.date, second.width, second.height) == ("", 80, 60)
    assert (empty.folder / second.file).read_bytes() == (source / "deep" / "b.png").read_bytes()
    assert any("the same file" in why for why in end.refused.values())
    assert (empty.folder / "bench.toml").exists()


async def test_a_second_call_takes_only_what_is_new(tmp_path: Path, empty: Bench) -> None:
    scene(tmp_path / "a.png", 1, (80, 60))
    await collect(empty, [str(tmp_path / "a.png")])
    scene(tmp_path / "b.png", 2, (80, 60))
    end = await collect(empty, [str(tmp_path / "a.png"), str(tmp_path / "b.png")])
    assert (end.new, end.known) == (1, 1)


async def test_files_of_a_list_lie_beside_it(tmp_path: Path, empty: Bench) -> None:
    scene(tmp_path / "a.png", 1, (80, 60))
    (tmp_path / "list.csv").write_text("url,licence,date\na.png,CC BY 4.0,2025-01-02\nlost.png,,\n")
    end = await collect(empty, [str(tmp_path / "list.csv")])
    (found,) = empty.pictures().values()
    assert (found.licence, found.date, end.new) == ("CC BY 4.0", "2025-01-02", 1)
    assert "no such file" in next(iter(end.refused.values()))


async def test_a_source_that_is_not_there_is_the_users_error(empty: Bench) -> None:
    with pytest.raises(UserError, match="no such file or folder"):
        await collect(empty, ["/nowhere/at/all"])


async def test_a_feed_is_taken_with_its_dates_and_licences(tmp_path: Path, empty: Bench) -> None:
    with serving(
        {"/feed": feed(item("1.png"), item("2.png")), "/1.png": picture(1, tmp_path), "/2.png": picture(2, tmp_path)}
    ) as site:
        end = await gather(empty, site.url("/feed"))
        again = await gather(empty, site.url("/feed"))
        asked = site.seen.count("/1.png")
    found = list(empty.pictures().values())
    assert [(each.date, each.licence, each.title) for each in found] == [
        ("2025-06-03", CC, "1.png"),
        ("2025-06-03", CC, "2.png"),
    ]
    assert (end.new, again.new, again.known, asked) == (2, 0, 2, 1)


async def test_a_sitemap_of_pages_leads_to_their_main_pictures(tmp_path: Path, empty: Bench) -> None:
    page = f'<html><head><meta property="og:image" content="/1.png"><link rel="license" href="{CC}"></head></html>'
    with serving({}) as site:
        urls = f"<urlset><url><loc>{site.url('/p')}</loc><lastmod>2025-02-03</lastmod></url></urlset>"
        index = f"<sitemapindex><sitemap><loc>{site.url('/s.xml')}</loc></sitemap></sitemapindex>"
        site.pages |= {"/index.xml": (200, XML, index.encode()), "/s.xml": (200, XML, urls.encode())}
        site.pages |= {"/p": page.encode(), "/1.png": picture(1, tmp_path)}
        end = await gather(empty, site.url("/index.xml"))
        again = await gather(empty, site.url("/index.xml"))
    (found,) = empty.pictures().values()
    assert (found.page, found.date, found.licence) == (site.url("/p"), "2025-02-03", CC)
    assert (end.new, again.new, site.seen.count("/p")) == (1, 0, 1)


async def test_a_packed_sitemap_is_read_and_names_no_files_of_this_machine(tmp_path: Path, empty: Bench) -> None:
    secret = scene(tmp_path / "secret.png", 5, (80, 60))
    with serving({"/1.png": picture(1, tmp_path)}) as site:
        named = [site.url("/1.png"), secret.as_uri(), str(secret)]
        images = "".join(f"<image><loc>{each}</loc><license>CC0</license></image>" for each in named)
        packed = gzip.compress(f"<urlset><url><loc>{site.url('/p')}</loc>{images}</url></urlset>".encode())
        site.pages["/sitemap.xml.gz"] = (200, {"Content-Type": "application/gzip"}, packed)
        end = await gather(empty, site.url("/sitemap.xml.gz"))
    (found,) = empty.pictures().values()
    assert (end.new, found.source) == (1, site.url("/1.png"))


async def test_without_a_known_licence_nothing_is_even_asked_for(tmp_path: Path, empty: Bench) -> None:
    with serving({"/feed": feed(item("1.png"), licence=""), "/1.png": picture(1, tmp_path)}) as site:
        end = await gather(empty, site.url("/feed"))
        assert "/1.png" not in site.seen
        assert "no licence is stated" in end.refused[site.url("/1.png")]
        agreed = {"127.0.0.1": Host(licence="CC BY 4.0", terms="mail of 1 May")}
        kept = await gather(empty, site.url("/feed"), given=Given(again=True), hosts=agreed)
    (found,) = empty.pictures().values()
    assert (kept.new, found.licence, found.licence_from) == (1, "CC BY 4.0", "mail of 1 May")


async def test_a_licence_that_the_rules_do_not_accept_is_refused(tmp_path: Path, empty: Bench) -> None:
    closed = feed(item("1.png"), licence="<rights>All rights reserved</rights>")
    with serving({"/feed": closed, "/1.png": picture(1, tmp_path)}) as site:
        end = await gather(empty, site.url("/feed"))
        taken = await gather(empty, site.url("/feed"), given=Given(again=True), licences=("All rights*",))
    assert "none of collect.licences" in end.refused[site.url("/1.png")]
    assert taken.new == 1


async def test_robots_and_reservations_are_obeyed_before_the_page_is_asked(tmp_path: Path, empty: Bench) -> None:
    robots = (200, {"Content-Type": "text/plain"}, b"User-agent: *\nDisallow: /1.png\n")
    reserved = json.dumps([{"location": "/2*", "tdm-reservation": 1}]).encode()
    pages: dict[str, Answer | bytes] = {
        "/robots.txt": robots,
        "/.well-known/tdmrep.json": (200, {"Content-Type": "application/json"}, reserved),
        "/feed": feed(item("1.png"), item("2.png"), item("3.png")),
        **{f"/{seed}.png": picture(seed, tmp_path) for seed in (1, 2, 3)},
    }
    with serving(pages) as site:
        end = await gather(empty, site.url("/feed"))
        assert not {"/1.png", "/2.png"} & set(site.seen)
    assert end.new == 1
    assert "robots.txt" in end.refused[site.url("/1.png")]
    assert "tdmrep.json" in end.refused[site.url("/2.png")]


async def test_a_page_that_reserves_its_pictures_is_refused(tmp_path: Path, empty: Bench) -> None:
    page = '<meta name="robots" content="noai"><meta property="og:image" content="/1.png">'
    page += f'<link rel="license" href="{CC}">'
    with serving({"/p": f"<html><head>{page}</head></html>".encode(), "/1.png": picture(1, tmp_path)}) as site:
        end = await gather(empty, site.url("/p"))
    assert "not used" in end.refused[site.url("/p")]
    assert "/1.png" not in site.seen


async def test_a_failure_of_a_site_is_tried_again_by_the_next_call(tmp_path: Path, empty: Bench) -> None:
    with serving({"/feed": feed(item("1.png")), "/1.png": (503, {}, b"busy")}) as site:
        end = await gather(empty, site.url("/feed"))
        assert (end.new, list(end.failed), end.refused) == (0, [site.url("/1.png")], {})
        site.pages["/1.png"] = picture(1, tmp_path)
        assert (await gather(empty, site.url("/feed"))).new == 1


async def test_this_machine_and_too_large_pictures_are_refused(tmp_path: Path, empty: Bench) -> None:
    with serving({"/1.png": picture(1, tmp_path)}) as site:
        agreed = {"127.0.0.1": Host(licence="CC0")}
        inward = await gather(empty, site.url("/1.png"), allow=(), hosts=agreed)
        large = await gather(empty, site.url("/1.png"), given=Given(again=True), max_mb=0.0001, hosts=agreed)
        fine = await gather(empty, site.url("/1.png"), given=Given(again=True), hosts=agreed)
    assert "127.0.0.1" in next(iter(inward.refused.values()))
    assert "more than" in next(iter(large.refused.values()))
    assert fine.new == 1


async def test_the_pause_of_a_site_lies_between_its_requests(tmp_path: Path, empty: Bench, monkeypatch: Any) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("vlagent.curate.bench.web.asyncio.sleep", sleep)
    with serving({"/feed": feed(item("1.png")), "/1.png": picture(1, tmp_path)}) as site:
        await gather(empty, site.url("/feed"), pause_s=50)
    assert len(slept) == 1
    assert 40 < slept[0] <= 50


class Endless(dict[str, Answer | bytes]):
    """A site whose every sitemap names another one."""

    host = ""

    def get(self, path: str, default: Any = None) -> Any:
        if not path.startswith("/s") or int(path[2:]) > 60:
            return default
        named = f"<sitemap><loc>http://{self.host}/s{int(path[2:]) + 1}</loc></sitemap>"
        return 200, XML, f"<sitemapindex>{named}</sitemapindex>".encode()


async def test_sitemaps_without_an_end_end_at_the_most_and_that_is_said(empty: Bench) -> None:
    write_atomic(empty.folder / "bench.toml", "[collect]\nmost = 7\n")
    pages = Endless()
    with serving(pages) as site:
        pages.host = site.host
        end = await gather(empty, site.url("/s0"))
        asked = [path for path in site.seen if path.startswith("/s")]
    assert (len(asked), end.cut) == (8, [site.url("/s0")])


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<rss><channel><item><enclosure url='http://[::1' type='image/png'/></item></channel></rss>", "text/xml"),
        (b"<feed><entry><link href='http://a b c/ d'/></entry></feed>", "text/xml"),
        (b"<urlset><url><loc>http://xn--a.com/</loc></url></urlset>", "text/xml"),
        (b"<html><head><meta property='og:image' content='http://[x'></head></html>", "text/html"),
        (b"<meta property='og:image' content='//:0'><a rel='license' href='http://[x'></a>", "text/html"),
        (b"<rss>" + b"<a>" * 9999, "text/xml"),
        (b"\x1f\x8bnot packed", "application/gzip"),
    ],
)
async def test_a_broken_source_is_named_and_stops_nothing(tmp_path: Path, empty: Bench, body: bytes, kind: str) -> None:
    pages: dict[str, Answer | bytes] = {"/bad": (200, {"Content-Type": kind}, body)}
    with serving(pages | {"/feed": feed(item("1.png")), "/1.png": picture(1, tmp_path)}) as site:
        end = await gather(empty, site.url("/bad"), site.url("/feed"))
    assert (end.new, len(end.refused) + len(end.empty)) == (1, 1)


async def test_what_lacked_a_licence_or_a_date_gets_it_from_a_later_call(tmp_path: Path, empty: Bench) -> None:
    source = str(scene(tmp_path / "a.png", 1, (80, 60)))
    await collect(empty, [source])
    (before,) = empty.pictures().values()
    end = await collect(empty, [source], Given(licence="CC0", date="2025-06-01"))
    again = await collect(empty, [source], Given(licence="CC BY 4.0"))
    (found,) = empty.pictures().values()
    assert (before.licence, before.date) == ("", "")
    assert (found.licence, found.licence_from, found.date) == ("CC0", "--licence", "2025-06-01")
    assert (end.new, end.known, end.completed, again.completed) == (0, 1, 1, 0)


async def test_a_full_disk_is_no_fault_of_a_picture(tmp_path: Path, empty: Bench) -> None:
    import resource

    source = tmp_path / "a.bmp"
    scene(source, 1, (400, 300))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # lines still fit, the picture does not
    try:
        with pytest.raises(PermanentError, match="cannot be written"):
            await collect(empty, [str(source)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert empty.refused() == {}
    assert (await collect(empty, [str(source)])).new == 1


async def test_a_file_that_cannot_be_read_is_named_by_its_own_name(tmp_path: Path, empty: Bench) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG but no more")
    end = await collect(empty, [str(tmp_path / "a.png")])
    (why,) = end.refused.values()
    assert why.startswith("not a picture that can be read")
    assert list((empty.folder).glob("pictures/*")) == []
    with pytest.raises(UserError, match="/proc/self/mem: cannot be read"):
        await collect(empty, ["/proc/self/mem"])
