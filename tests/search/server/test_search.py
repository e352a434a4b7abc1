"""`POST /search`: what callers may send, what they get, what it costs upstream."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from PIL import Image

from tests.fakes.web_server import Fault
from tests.search.files import photo
from tests.search.server.world import QUERY, World
from vlagent.errors import UserError
from vlagent.search.picture_build import index_images
from vlagent.search.server import recent
from vlagent.search.server.desk import Desk, Supplies
from vlagent.search.server.options import ServerOptions
from vlagent.search.text_build import index_text

KEY = "caller-key-123"


async def test_a_query_is_answered_in_plain_text_from_what_the_pages_say() -> None:
    async with World(links=5).open() as world:
        said = await world.ask()
        assert said.status_code == 200
        assert said.headers["content-type"] == "text/plain; charset=utf-8"
        assert world.fact() in said.text
        assert "x-degraded" not in said.headers
        assert world.serper.refused == world.chat.refused == []


async def test_twenty_identical_queries_cost_one_search_five_pages_and_six_summaries() -> None:
    async with World(links=5).open() as world:
        said = await asyncio.gather(*(world.ask() for _ in range(20)))
        assert len({each.text for each in said}) == 1
        assert world.serper.counts["requests"] == 1
        assert world.pages.counts["pages"] == 5
        assert world.chat.counts["completions"] == 6
        await world.ask()
        assert world.serper.counts["requests"] == 1


async def test_json_is_given_where_it_is_accepted_and_every_field_of_the_contract_is_taken() -> None:
    async with World().open() as world:
        body = {
            "query": QUERY,
            "retrieval_mode": "google_serper",
            "top_k": 1,
            "llm_model": "fake-model",
            "prompt_type": "mmsearch_r1",
            "use_jina": False,
            "enable_thinking": False,
            "web_search_address": "http://anything.example",
            "a_field_of_others": 1,
        }
        said = await world.client.post("/search", json=body, headers={"accept": "application/json"})
        assert said.json()["text"] == world.fact()
        assert len(said.json()["sources"]) == 1


async def test_nothing_found_is_said_and_is_no_failure() -> None:
    async with World(links=0).open() as world:
        said = await world.ask()
        assert (said.status_code, said.text) == (200, "No results were found for this query.")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"query": ""}, 422),
        ({"query": "x", "retrieval_mode": "bing"}, 422),
        ({"query": "x", "top_k": 21}, 422),
        ({"query": "x" * 2001}, 422),
        ({"retrieval_mode": "local"}, 422),
        ({"query": "x", "retrieval_mode": "local"}, 400),
        ({"query": "x", "llm_model": "gpt-expensive"}, 400),
        ({"query": "x", "retrieval_mode": "local", "local_database_address": "http://169.254.169.254"}, 400),
    ],
)
async def test_what_cannot_be_done_is_refused_with_one_line_and_costs_nothing(body: object, status: int) -> None:
    async with World().open() as world:
        said = await world.client.post("/search", json=body)
        assert said.status_code == status
        assert said.json()["error"]["message"].count("\n") == 0
        assert world.serper.counts["requests"] == 0


async def test_other_content_types_and_large_bodies_are_refused() -> None:
    async with World(options={"max_request_bytes": 100}).open() as world:
        said = await world.client.post("/search", content=b"query=x", headers={"content-type": "text/plain"})
        assert said.status_code == 415
        assert (await world.ask("x" * 200)).status_code == 413


async def test_a_listed_model_is_asked_and_a_listed_database_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Belmont Tower was opened in 1931.")
    index_text([tmp_path / "a.txt"], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as retrieval:
        transport = retrieval.client._transport
        world = World(options={"databases": ["http://db.example:8001/retrieve"], "models": ["other-model"]})
        async with world.open():
            said = await world.ask(llm_model="other-model")
            assert said.headers["x-degraded"] == "1"  # the fake does not serve it
            assert "does not exist" in world.chat.refused[0]
            network = type(world.desk._supplies.network)(transport=transport)
            object.__setattr__(world.desk._supplies, "network", network)
            given = {"retrieval_mode": "local", "local_database_address": "http://db.example:8001"}
            refused = await world.ask("When was Belmont Tower opened?", **given)
            assert refused.status_code == 502  # it answers to localhost only
            assert world.serper.counts["requests"] == 1


async def test_local_mode_asks_the_passages_and_a_change_of_them_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Belmont Tower was opened in 1931.")
    index_text([tmp_path / "a.txt"], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as world:
        said = await world.ask("When was Belmont Tower opened?", retrieval_mode="local")
        assert said.text == "Belmont Tower was opened in 1931."
        (tmp_path / "b.txt").write_text("Walden Bridge was opened in 1987.")
        index_text([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "index")
        await asyncio.sleep(1.1)
        said = await world.ask("When was Walden Bridge opened?", retrieval_mode="local", top_k=1)
        assert said.text == "Walden Bridge was opened in 1987."
        assert world.serper.counts["requests"] == 0


async def test_a_full_queue_says_when_to_come_back_and_what_is_kept_is_answered_all_the_same() -> None:
    world = World(options={"at_once": 1, "waiting": 1})
    async with world.open():
        kept = await world.ask("kept")
        world.serper.delay_s = 0.3
        said = await asyncio.gather(*(world.ask(f"query {n}") for n in range(4)), world.ask("kept"))
        assert sorted(each.status_code for each in said) == [200, 200, 200, 429, 429]
        assert said[-1].text == kept.text
        refused = next(each for each in said if each.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
        assert world.desk.gate.refused == 2
        world.serper.delay_s = 0
        assert (await world.ask("query 9")).status_code == 200


async def test_a_deadline_is_one_of_the_whole_request() -> None:
    async with World(options={"deadline_s": 1.5}, live={"text": {"timeout_s": 9.0}}).open() as world:
        world.serper.delay_s = 8
        assert (await world.ask()).status_code == 504
        world.serper.delay_s = 0
        world.desk.options = world.desk.options.model_copy(update={"deadline_s": 60.0})
        assert (await world.ask()).status_code == 200


async def test_a_key_is_asked_for_on_every_path_but_health_which_then_says_little() -> None:
    async with World(key=KEY).open() as world:
        for path in ("/stats", "/metrics", "/docs", "/openapi.json"):
            assert (await world.client.get(path)).status_code == 401
        assert (await world.ask()).status_code == 401
        assert set((await world.client.get("/health")).json()) == {"status", "service"}
        for headers in ({"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}):
            said = await world.client.get("/health", headers=headers)
            assert "dependencies" in said.json()
        assert (await world.client.get("/stats", headers={"authorization": "Bearer wrong"})).status_code == 401


async def test_without_a_key_only_this_machines_names_are_answered() -> None:
    async with World().open() as world:
        said = await world.client.post("/search", json={"query": "x"}, headers={"host": "evil.example"})
        assert said.status_code == 403
        for host in ("localhost:8000", "127.0.0.1", "[::1]:8000"):
            assert (await world.client.get("/health", headers={"host": host})).status_code == 200


async def test_pictures_are_searched_by_their_bytes_and_thumbnails_come_back_as_bytes(tmp_path: Path) -> None:
    for number in range(3):
        photo(number).save(tmp_path / f"p{number}.png")
    index_images([tmp_path], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as world:
        raw = base64.b64encode((tmp_path / "p1.png").read_bytes()).decode()
        lines = base64.encodebytes(base64.b64decode(raw)).decode()
        for sent in (raw, f"data:image/png;base64,{raw}", lines):
            said = (await world.client.post("/image_search", json={"image": sent})).json()
            assert said["hits"][0]["title"] == "p1"
            assert said["hits"][0]["file"] == "p1.png"
        with Image.open(io.BytesIO(base64.b64decode(said["hits"][0]["thumbnail"]))) as small:
            assert max(small.size) <= 256
        for wrong in ("/etc/passwd", "http://169.254.169.254/", base64.b64encode(b"no picture").decode()):
            assert (await world.client.post("/image_search", json={"image": wrong})).status_code == 400


async def test_a_hot_query_is_answered_from_memory_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async with World().open() as world:
        said = [await world.ask() for _ in range(4)]
        assert len({each.text for each in said}) == 1
        assert world.desk.live.store
        assert world.desk.live.store.hits == 1  # the second; the others never reach the cache
        as_json = await world.client.post("/search", json={"query": QUERY}, headers={"accept": "application/json"})
        assert as_json.json()["text"] == said[0].text
        monkeypatch.setattr(recent, "KEPT_S", -1.0)
        await world.ask("another")
        await world.ask("another")
        before = world.desk.live.store.hits
        await world.ask("another")
        assert world.desk.live.store.hits == before + 1


async def test_a_degraded_answer_is_never_remembered() -> None:
    async with World().open() as world:
        world.chat.always = Fault("500")
        assert [(await world.ask()).headers["x-degraded"] for _ in range(3)] == ["1"] * 3
        world.chat.always = None
        assert "x-degraded" not in (await world.ask()).headers


async def test_what_the_server_lacks_is_not_the_callers_mistake() -> None:
    pages = {"javascript": "always", "chromium": "/nowhere/chromium"}
    async with World(live={"pages": pages}).open() as world:
        said = await world.ask()
        assert said.status_code == 502
        assert said.json()["error"]["type"] == "Misconfigured"
        assert "pages.chromium" in said.json()["error"]["message"]


async def test_a_blank_query_costs_nothing() -> None:
    async with World().open() as world:
        for query in (" ", "\n\t", "\u3000"):
            said = await world.ask(query)
            assert (said.status_code, "nothing to search for" in said.text) == (422, True)
        assert world.serper.counts["requests"] == 0


async def test_a_page_of_another_site_cannot_spend_searches_and_our_own_may() -> None:
    async with World().open() as world:
        for origin, status in (("https://evil.example", 403), ("null", 403), ("http://localhost:3000", 200)):
            said = await world.client.post("/search", json={"query": QUERY}, headers={"origin": origin})
            assert said.status_code == status


async def test_all_summarisers_of_a_server_spend_one_budget() -> None:
    async with World(live={"budget": {"max_paid_calls": 2}}, options={"models": ["other"]}).open() as world:
        codes = []
        for number, model in enumerate(("fake-model", "other", "other", "fake-model")):
            said = await world.client.post("/search", json={"query": f"{QUERY} {number}", "llm_model": model})
            codes.append(said.status_code)
        assert world.serper.counts["requests"] == 2
        assert codes == [200, 200, 502, 502]


async def test_a_request_that_never_ends_is_answered_at_the_deadline() -> None:
    async def slowly() -> AsyncIterator[bytes]:
        yield b'{"query": '
        await asyncio.sleep(30)

    async with World(options={"deadline_s": 0.2}).open() as world:
        said = await world.client.post("/search", content=slowly(), headers={"content-type": "application/json"})
        assert said.status_code == 408


def test_a_server_with_nothing_to_answer_from_does_not_start() -> None:
    with pytest.raises(UserError, match=r"nothing to serve: name text\.provider"):
        Desk(Supplies(), ServerOptions())
