"""`/health` tells the truth about each dependency, `/stats` and `/metrics` count what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.web_server import Fault
from tests.search.server.world import World
from vlagent.search import watch
from vlagent.search.server import health
from vlagent.search.text_build import index_text


@pytest.fixture(autouse=True)
def probes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PROBED_EVERY_S", 0.0)


async def test_a_dependency_that_fails_is_named_and_comes_back_without_a_restart() -> None:
    async with World().open() as world:
        before = (await world.client.get("/health")).json()
        assert before["status"] == "healthy"
        assert before["dependencies"]["serper"]["state"] == "unknown"
        assert before["dependencies"]["serper"]["reachable"]

        world.chat.always = Fault("500")
        await world.ask("one")
        after = (await world.client.get("/health")).json()
        assert after["status"] == "degraded"
        assert after["dependencies"]["summariser"]["state"] == "failing"
        assert "HTTP 500" in after["dependencies"]["summariser"]["error"]
        assert after["dependencies"]["serper"]["state"] == "ok"

        world.chat.always = None
        await world.ask("two")
        assert (await world.client.get("/health")).json()["status"] == "healthy"


async def test_without_any_source_that_works_the_server_is_unhealthy() -> None:
    async with World().open() as world:
        world.serper.always = Fault("quota")
        assert (await world.ask()).status_code == 502
        said = await world.client.get("/health")
        assert (said.status_code, said.json()["status"]) == (503, "unhealthy")
        assert "QuotaError" in said.json()["dependencies"]["serper"]["error"]


async def test_what_cannot_be_reached_is_known_before_it_is_needed() -> None:
    world = World(live={"summary": {"base_url": "http://127.0.0.1:9/v1"}})
    async with world.open():
        said = (await world.client.get("/health")).json()
        assert said["status"] == "degraded"
        assert "cannot be reached" in said["dependencies"]["summariser"]["error"]


async def test_an_old_outcome_says_nothing_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World().open() as world:
        world.serper.faults.append(Fault("500"))
        await world.ask()
        monkeypatch.setattr(watch, "BELIEVED_S", 0.0)
        assert (await world.client.get("/health")).json()["status"] == "healthy"


async def test_some_pages_fail_always_and_all_of_them_never() -> None:
    async with World(links=5).open() as world:
        world.pages.always = Fault("500")
        await world.ask("one")
        assert (await world.client.get("/health")).json()["dependencies"]["pages"]["state"] == "ok"
        await world.ask("two")
        assert (await world.client.get("/health")).json()["dependencies"]["pages"]["state"] == "failing"


async def test_passages_that_are_gone_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Belmont Tower was opened in 1931.")
    index_text([tmp_path / "a.txt"], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as world:
        found = (await world.client.get("/health")).json()["dependencies"]["passages"]
        assert found == {"state": "ok", "passages": 1}


async def test_stats_and_metrics_count_what_happened() -> None:
    async with World().open() as world:
        await world.ask()
        await world.ask()
        await world.client.post("/search", json={})
        stats = (await world.client.get("/stats")).json()
        assert set(stats) >= {"server", "web_scraping", "cache_db", "resource_health"}
        assert stats["web_scraping"] == {"read": 2, "failed": 0, "browsers": 0, "browsers_launched": 0}
        assert stats["cache_db"]["hits"] == 1
        assert stats["spent"]["calls"] == {"serper": 1}
        page = (await world.client.get("/metrics")).text
        assert 'vlagent_requests_total{path="/search",status="200"} 2.0' in page
        assert 'vlagent_requests_total{path="/search",status="422"} 1.0' in page
        assert 'vlagent_dependency_good_total{of="pages"} 2.0' in page
        assert 'vlagent_spent_usd_total{of="serper"} 0.001' in page
        assert 'vlagent_request_seconds_count{path="/search"} 3.0' in page
