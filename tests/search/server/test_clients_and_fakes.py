"""Each client against a server that was written from its service's documentation, over real connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.fakes.search_engines import KEY, Brave, Engine, SearXNG, SerpApi, Serper, Tavily
from tests.fakes.web_server import Fault
from vlagent import images
from vlagent.errors import AuthError, PermanentError, QuotaError, RateLimitedError, ServiceError, TransientError
from vlagent.search.base import ImageQuery, TextQuery
from vlagent.search.budget import Budget
from vlagent.search.pages.config import PageConfig
from vlagent.search.pages.fetch import Fetcher
from vlagent.search.pages.guard import Guard
from vlagent.search.web.base import ProviderConfig
from vlagent.search.web.lens import SerpApiLens, SerperLens, Thumbnails
from vlagent.search.web.providers import open_provider
from vlagent.search.web.publish import FolderPublisher

ENGINES: dict[str, type[Engine]] = {"serper": Serper, "searxng": SearXNG, "brave": Brave, "tavily": Tavily}
HARD_QUERIES = [
    "belmont tower",
    "word " * 90,
    "x" * 700,
    "Wann wurde der Turm eröffnet? 国立競技場 🗼 & a=b?c#d",
    'site:example.com "quoted" -minus\nsecond line\ttab',
]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SERPER", "BRAVE", "TAVILY", "SERPAPI"):
        monkeypatch.setenv(f"VLAGENT_{name}_KEY", KEY)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[tuple[str, Engine]]:
    with ENGINES[request.param](lambda query: [f"https://site.example/{n}" for n in range(30)], delay_s=0) as fake:
        yield request.param, fake


def opened(name: str, fake: Engine, **config: Any) -> Any:
    settings = {"base_url": fake.url, "attempts": 1, "timeout_s": 20.0, "wait_s": 0.0} | config
    return open_provider(name, ProviderConfig.model_validate(settings), Budget())


async def test_no_query_and_no_number_is_one_that_the_service_refuses(engine: tuple[str, Engine]) -> None:
    name, fake = engine
    provider = opened(name, fake)
    for top_k in (1, 5, 20, 50):
        hits = await provider.search(TextQuery(text="belmont tower", top_k=top_k))
        assert len(hits) == min(top_k, {"serper": 30}.get(name, 20))
        assert hits[0].source.url == "https://site.example/0"
        assert hits[0].text == "Snippet 1: belmont tower"
    for query in HARD_QUERIES:
        assert await provider.search(TextQuery(text=query))
    assert fake.refused == []
    await provider.aclose()


FAULTS: dict[str, type[ServiceError]] = {
    "500": TransientError,
    "reset": TransientError,
    "garbage": TransientError,
    "wrong_type": TransientError,
    "truncated": TransientError,
    "empty": TransientError,
    "hang": TransientError,
    "slow": TransientError,
    "429": RateLimitedError,
    "quota": QuotaError,
    "auth": AuthError,
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_every_fault_is_typed_and_the_next_query_goes_well(engine: tuple[str, Engine], kind: Any) -> None:
    name, fake = engine
    waits = kind in ("hang", "slow")
    provider = opened(name, fake, timeout_s=0.4 if waits else 20.0)
    expected: dict[tuple[str, str], type[ServiceError]] = {
        # An instance of one's own has neither quota nor keys: it limits who asks too much, or gives no JSON.
        ("searxng", "quota"): RateLimitedError,
        ("searxng", "auth"): PermanentError,
    }
    fake.faults.append(Fault(kind))
    with pytest.raises(ServiceError) as caught:
        await provider.search(TextQuery(text="belmont tower"))
    assert type(caught.value) is expected.get((name, kind), FAULTS[kind])
    assert KEY not in str(caught.value)
    patient = opened(name, fake, timeout_s=20.0) if waits else provider
    assert await patient.search(TextQuery(text="belmont tower"))
    await patient.aclose()
    await provider.aclose()


async def test_a_pause_is_waited_for_and_a_long_one_is_not(engine: tuple[str, Engine]) -> None:
    name, fake = engine
    provider = opened(name, fake, attempts=2)
    fake.faults.append(Fault("429", retry_after_s=0.05))
    assert await provider.search(TextQuery(text="belmont tower"))
    fake.faults.append(Fault("429", retry_after_s=600))
    with pytest.raises(RateLimitedError) as caught:
        await provider.search(TextQuery(text="belmont tower"))
    assert caught.value.retry_after_s == 600
    assert len(fake.seen) == 3
    await provider.aclose()


async def test_a_wrong_key_is_an_auth_error(engine: tuple[str, Engine]) -> None:
    name, fake = engine
    fake.key = "another"
    if name == "searxng":
        return
    with pytest.raises(AuthError):
        await opened(name, fake).search(TextQuery(text="belmont tower"))


async def test_an_instance_without_json_says_what_to_do() -> None:
    fake = SearXNG(lambda _: [], formats=("html",), delay_s=0)
    with fake, pytest.raises(PermanentError, match=r"settings\.yml"):
        await opened("searxng", fake).search(TextQuery(text="tower"))


@pytest.mark.parametrize(("kind", "lens"), [(Serper, SerperLens), (SerpApi, SerpApiLens)])
async def test_a_picture_is_searched_by_its_address(kind: type[Engine], lens: Any, tmp_path: Path) -> None:
    Image.new("RGB", (64, 48), "teal").save(tmp_path / "p.png")
    picture = images.probe(tmp_path / "p.png")
    small = Thumbnails(Fetcher(PageConfig(), Guard()), tmp_path / "small")
    publisher = FolderPublisher(tmp_path / "public", "https://me.example/p")
    with kind(lambda _: ["http://127.0.0.1/page"], delay_s=0) as fake:
        config = ProviderConfig(base_url=fake.url, attempts=1)
        search = lens(config, Budget(), publisher, small)
        hits = await search.search(ImageQuery(picture))
        assert [hit.source.url for hit in hits] == ["http://127.0.0.1/page"]
        assert fake.refused == []
        fake.links = lambda _: []
        assert await search.search(ImageQuery(picture)) == []
        for fault, error in (("auth", AuthError), ("quota", QuotaError), ("429", RateLimitedError)):
            fake.faults.append(Fault(fault))  # type: ignore[arg-type]
            with pytest.raises(error):
                await search.search(ImageQuery(picture))
        await search.aclose()
