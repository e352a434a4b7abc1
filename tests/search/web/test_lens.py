"""Reverse image search by address: the picture is public for a moment, thumbnails come along."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.search.web.answers import Network
from vlagent import images
from vlagent.errors import PermanentError, QuotaError
from vlagent.search.base import ImageQuery
from vlagent.search.budget import Budget
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.fetch import Fetcher
from vlagent.search.pages.guard import Guard
from vlagent.search.web.base import ProviderConfig
from vlagent.search.web.lens import SerpApiLens, SerperLens, Thumbnails
from vlagent.search.web.publish import FolderPublisher, PutPublisher
from vlagent.types import ImageRef

KEY = "lens-secret"


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageRef:
    monkeypatch.setenv("VLAGENT_SERPER_KEY", KEY)
    monkeypatch.setenv("VLAGENT_SERPAPI_KEY", KEY)
    Image.new("RGB", (120, 80), (10, 200, 30)).save(tmp_path / "photo.png")
    return images.probe(tmp_path / "photo.png")


def small_jpeg() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (32, 24), (200, 10, 10)).save(buffer, "JPEG")
    return buffer.getvalue()


def thumbnails(folder: Path) -> tuple[Thumbnails, Network]:
    def answer(request: httpx.Request) -> httpx.Response:
        if "good" in request.url.path:
            return httpx.Response(200, content=small_jpeg(), headers={"content-type": "image/jpeg"})
        return httpx.Response(404)

    network = Network(answer)
    return Thumbnails(Fetcher(PageConfig(), Guard(), network), folder), network


LENS = {
    "organic": [
        {
            "title": "Belmont Tower",
            "link": "https://one.example/a",
            "source": "One",
            "thumbnailUrl": "https://t.example/good",
        },
        {"title": "Broken", "link": "https://two.example/b", "source": "Two", "thumbnailUrl": "https://t.example/gone"},
        {"title": "Inward", "link": "https://three.example/c", "source": "3", "thumbnailUrl": "http://localhost/good"},
    ]
}


async def test_serper_lens_sees_the_published_region_and_keeps_titles_without_thumbnails(
    picture: ImageRef, tmp_path: Path
) -> None:
    public = tmp_path / "public"
    seen: dict[str, Any] = {}

    def answer(request: httpx.Request) -> httpx.Response:
        names = [path.name for path in public.iterdir()]
        with Image.open(public / names[0]) as shown:
            seen.update(names=names, size=shown.size)
        return httpx.Response(200, json=LENS)

    network = Network(answer)
    small, fetched = thumbnails(tmp_path / "small")
    lens = SerperLens(ProviderConfig(), Budget(), FolderPublisher(public, "https://me.example/p/"), small, network)
    hits = await lens.search(ImageQuery(images.crop(picture, (0, 0, 60, 40))))
    assert network.body() == {"url": f"https://me.example/p/{seen['names'][0]}"}
    assert seen["size"] == (60, 40)
    assert list(public.iterdir()) == []
    assert [hit.source.title for hit in hits] == ["Belmont Tower", "Broken", "Inward"]
    assert [hit.thumbnail is not None for hit in hits] == [True, False, False]
    assert len(fetched.requests) == 2


async def test_serpapi_takes_its_key_in_the_query_and_reports_nothing_found_as_empty(
    picture: ImageRef, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    said: dict[str, Any] = {"visual_matches": [{"title": "T", "link": "https://one.example/a", "source": "One"}]}
    network = Network(lambda _: httpx.Response(200, json=said))
    small, _ = thumbnails(tmp_path / "small")
    lens = SerpApiLens(
        ProviderConfig(attempts=1), Budget(), FolderPublisher(tmp_path / "p", "https://me.example"), small, network
    )
    assert [hit.source.title for hit in await lens.search(ImageQuery(picture))] == ["T"]
    assert network.last.url.params["api_key"] == KEY
    assert network.last.url.params["engine"] == "google_lens"
    assert KEY not in caplog.text
    said = {"error": "Google hasn't returned any results for this query."}
    assert await lens.search(ImageQuery(picture)) == []
    said = {"error": "Your account has run out of searches."}
    with pytest.raises(QuotaError):
        await lens.search(ImageQuery(picture))


async def test_a_put_publisher_takes_the_picture_down_again(picture: ImageRef) -> None:
    network = Network(lambda _: httpx.Response(201))
    async with PutPublisher("https://store.example/tmp", network).published(picture) as url:
        assert network.last.method == "PUT"
        assert str(network.last.url) == url
        with Image.open(io.BytesIO(network.last.content)) as sent:
            assert sent.size == (120, 80)
    assert network.last.method == "DELETE"
    refusing = Network(lambda _: httpx.Response(403))
    with pytest.raises(PermanentError, match="HTTP 403"):
        async with PutPublisher("https://store.example/tmp", refusing).published(picture):
            pass
