"""Lists, feeds, sitemaps and pages to addresses of pictures with their dates and licences."""

from __future__ import annotations

import pytest

from vlagent.curate.bench.sources import Lead, iso_date, parse_list, parse_page, parse_xml
from vlagent.errors import UserError

RSS = b"""<?xml version="1.0"?>
<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"
     xmlns:creativeCommons="http://backend.userland.com/creativeCommonsRssModule">
<channel><title>News</title>
<creativeCommons:license>https://creativecommons.org/licenses/by/4.0/</creativeCommons:license>
<item><title>Harbour</title><link>/a</link><pubDate>Tue, 03 Jun 2025 10:00:00 GMT</pubDate>
 <media:content url="/a.jpg" medium="image"/><media:content url="/a.mp4" medium="video"/></item>
<item><title>Tower</title><link>/b</link><enclosure url="/b.png" type="image/png" length="1"/>
 <media:license href="https://example.org/own"/></item>
<item><title>Only a page</title><link>/c</link></item>
</channel></rss>"""
ATOM = b"""<feed xmlns="http://www.w3.org/2005/Atom"><link rel="license" href="https://creativecommons.org/licenses/by/4.0/"/>
<entry><title>One</title><link href="/one"/><published>2025-03-04T05:06:07Z</published>
<link rel="enclosure" type="image/jpeg" href="/one.jpg"/></entry></feed>"""
SITEMAP = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"
 xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">
<url><loc>https://example.org/p</loc><lastmod>2025-01-02</lastmod>
 <news:news><news:publication_date>2024-12-31</news:publication_date><news:title>Piers</news:title></news:news>
 <image:image><image:loc>https://example.org/p1.jpg</image:loc><image:license>CC0</image:license></image:image>
 <image:image><image:loc>https://example.org/p2.jpg</image:loc></image:image></url>
<url><loc>https://example.org/q</loc><lastmod>2025-02-03T04:05:06+00:00</lastmod></url></urlset>"""
INDEX = b"""<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc>/s1.xml</loc></sitemap></sitemapindex>"""


def test_an_rss_feed_gives_its_pictures_with_date_and_licence_and_leaves_videos_out() -> None:
    first, second, third = parse_xml(RSS, "https://example.org/feed") or []
    assert (first.address, first.page, first.kind) == ("https://example.org/a.jpg", "https://example.org/a", "picture")
    assert (first.date, first.date_from, first.title) == ("2025-06-03", "feed", "Harbour")
    assert first.licence == "https://creativecommons.org/licenses/by/4.0/"
    assert second.licence == "https://example.org/own", "an item's own licence wins over the channel's"
    assert (third.address, third.kind) == ("https://example.org/c", "any")


def test_an_atom_feed_gives_enclosures() -> None:
    (lead,) = parse_xml(ATOM, "https://example.org/") or []
    assert (lead.address, lead.page, lead.date) == (
        "https://example.org/one.jpg",
        "https://example.org/one",
        "2025-03-04",
    )
    assert lead.licence_from == "feed"


def test_a_sitemap_gives_pictures_with_their_own_licence_and_the_date_of_publication() -> None:
    first, second, page = parse_xml(SITEMAP, "https://example.org/sitemap.xml") or []
    assert (first.address, first.licence, first.date) == ("https://example.org/p1.jpg", "CC0", "2024-12-31")
    assert (second.licence, second.title) == ("", "Piers")
    assert (page.address, page.date, page.kind) == ("https://example.org/q", "2025-02-03", "any")


def test_an_index_of_sitemaps_names_them() -> None:
    (lead,) = parse_xml(INDEX, "https://example.org/sitemap.xml") or []
    assert lead.address == "https://example.org/s1.xml"


@pytest.mark.parametrize("data", [b"", b"<html><body>no</body></html>", b"\xff\xd8\xff", b"<a"])
def test_what_is_neither_feed_nor_sitemap_is_none_of_them(data: bytes) -> None:
    assert parse_xml(data, "https://example.org/") is None


def test_entities_of_a_hostile_feed_read_no_file() -> None:
    bomb = b'<!DOCTYPE r [<!ENTITY f SYSTEM "file:///etc/hostname">]><rss><channel><item><link>&f;</link></item></channel></rss>'
    assert all(
        "/" not in lead.address.removeprefix("https://example.org/")
        for lead in parse_xml(bomb, "https://example.org/") or []
    )


def test_a_page_gives_its_main_picture_with_what_it_says_of_it() -> None:
    head = (
        '<meta property="og:image" content="/big.jpg">'
        '<meta property="article:published_time" content="2025-05-06T07:08Z">'
        '<meta property="og:title" content="Pier"><link rel="license" href="/cc">'
    )
    found = parse_page(f"<html><head>{head}</head></html>", Lead("x"), "https://example.org/a/b")
    assert found.lead is not None
    assert (found.lead.address, found.lead.page) == ("https://example.org/big.jpg", "https://example.org/a/b")
    assert (found.lead.date, found.lead.licence, found.lead.title) == ("2025-05-06", "https://example.org/cc", "Pier")
    assert not found.reserved


@pytest.mark.parametrize(
    "meta", ['<meta name="robots" content="index, noai">', '<meta name="tdm-reservation" content="1">']
)
def test_a_page_can_reserve_its_pictures(meta: str) -> None:
    page = f'<html><head>{meta}<meta property="og:image" content="/big.jpg"></head></html>'
    assert parse_page(page, Lead("x"), "https://example.org/").reserved


def test_lists_come_as_lines_as_json_lines_and_as_tables() -> None:
    assert [lead.address for lead in parse_list("# mine\na.png\n\nb.png\n", "l")] == ["a.png", "b.png"]
    (row,) = parse_list('{"url": "a.png", "date": "2025-01-02", "license": "CC0"}', "l")
    assert (row.address, row.date, row.licence, row.date_from) == ("a.png", "2025-01-02", "CC0", "list")
    (line,) = parse_list("url,licence,title\na.png,CC BY 4.0,Pier\n", "l")
    assert (line.licence, line.title) == ("CC BY 4.0", "Pier")


@pytest.mark.parametrize("text", ['{"url": 1', '{"page": "x"}', '{"url": "a", "date": "soon"}', "url,date\na,never\n"])
def test_a_wrong_list_is_the_users_error(text: str) -> None:
    with pytest.raises(UserError):
        parse_list(text, "list.txt")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2025-01-31", "2025-01-31"),
        ("2025:01:31 10:00:00", "2025-01-31"),
        ("Fri, 31 Jan 2025 10:00:00 +0000", "2025-01-31"),
        ("2025-01-31T23:59:59+01:00", "2025-01-31"),
        ("2025-02-31", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates_of_every_kind_become_iso_dates(text: str, day: str) -> None:
    assert iso_date(text) == day
