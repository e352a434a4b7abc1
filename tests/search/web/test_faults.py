"""Each dependency, each way to fail: a right answer, a marked degraded one that is not kept, or a typed error."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.search.web.test_live import ask
from tests.search.web.world import World
from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.search.live import Live, Network, open_live
from vlagent.search.live_config import LiveConfig
from vlagent.search.pages.extract import extract
from vlagent.types import Fault

HOSTS = {"search": "google.serper.dev", "summary": "llm.example", "page": "site2.example"}


async def _hang(_: httpx.Request) -> httpx.Response:
    await asyncio.sleep(60)
    raise AssertionError("a deadline comes first")


async def _reset(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("reset by peer", request=request)


async def _broken_off(_: httpx.Request) -> httpx.Response:
    async def body() -> Any:
        yield b'{"organic": ['
        raise httpx.RemoteProtocolError("peer closed connection")

    return httpx.Response(200, content=body())


FAULTS: dict[str, Any] = {
    "500": lambda _: httpx.Response(500),
    "429": lambda _: httpx.Response(429, headers={"retry-after": "99"}),
    "hang": _hang,
    "reset": _reset,
    "broken off": _broken_off,
    "garbage": lambda _: httpx.Response(200, content=b"\x00\xff\x13 nothing at all"),
    "wrong type": lambda _: httpx.Response(200, content=b"\x89PNG\r\n", headers={"content-type": "image/png"}),
    "empty": lambda _: httpx.Response(200, content=b""),
    "other shape": lambda _: httpx.Response(200, json={"hello": ["world"]}),
}


class Faulty(World):
    """The world, in which one host fails."""

    def __init__(self, host: str, fault: Any) -> None:
        super().__init__()
        self.host, self.fault = host, fault

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.fault and request.url.host == self.host:
            answer = self.fault(request)
            return await answer if asyncio.iscoroutine(answer) else answer
        return await super().handle_async_request(request)

    def live_with(self, deadline_s: float) -> Live:
        config = LiveConfig.model_validate(
            {
                "text": {"provider": "serper", "attempts": 2, "wait_s": 0.01, "timeout_s": deadline_s},
                "pages": {"robots": False, "workers": 0, "javascript": "never", "timeout_s": deadline_s},
                "summary": {"timeout_s": deadline_s},
            }
        )
        options = HttpOptions(base_url="http://llm.example/v1", attempts=2, wait_s=0.01)
        return open_live(config, Network(transport=self, summariser=HttpChat("m", options, self)))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLAGENT_SERPER_KEY", "a-serper-key")
    extract(b"<html><body><p>What is imported late is imported now.</p></body></html>", "text/html")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("dependency", HOSTS)
async def test_every_failure_is_an_answer_a_marked_one_or_a_typed_error_and_heals(dependency: str, fault: str) -> None:
    world = Faulty(HOSTS[dependency], FAULTS[fault])
    live = world.live_with(deadline_s=2.0 if fault == "hang" else 30.0)
    seen = await ask(live)
    if dependency == "search":
        assert seen.fault is Fault.WORLD
        assert "text_search is unavailable" in seen.text
    else:
        assert seen.fault is None
        assert seen.degraded or (dependency, fault) == ("page", "other shape"), "JSON is a page that can be read"
        assert "Belmont Tower was opened in 1901" in seen.text or "Summary" in seen.text

    world.fault = None
    healed = await ask(live)
    assert healed.fault is None
    assert not healed.degraded
    await live.aclose()
