"""`POST /retrieve` to the letter of Search-R1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.search.server.world import World
from vlagent.search.base import TextQuery
from vlagent.search.budget import Budget
from vlagent.search.text_build import index_text
from vlagent.search.web.base import ProviderConfig
from vlagent.search.web.retrieval import Retrieval


@pytest.fixture
def folder(tmp_path: Path) -> str:
    rows = [{"id": str(n), "contents": f'"Tower {n}"\nThe tower number {n} is {n} metres high.'} for n in range(8)]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    index_text([tmp_path / "corpus.jsonl"], tmp_path / "index")
    return str(tmp_path / "index")


async def test_both_flags_order_and_every_topk(folder: str) -> None:
    async with World(local=folder).open() as world:

        async def retrieve(**body: Any) -> Any:
            return (await world.client.post("/retrieve", json=body)).json()["result"]

        scored = await retrieve(queries=["tower number 3", "tower"], topk=2, return_scores=True)
        assert [len(each) for each in scored] == [2, 2]
        first = scored[0][0]
        assert set(first) == {"document", "score"}
        assert first["document"]["contents"].startswith("Tower 3\nThe tower number 3")
        assert isinstance(first["score"], float)
        assert scored[0][0]["score"] >= scored[0][1]["score"]
        bare = await retrieve(queries=["tower number 3"], topk=2, return_scores=False)
        assert bare[0][0] == first["document"]
        assert await retrieve(queries=[]) == []
        for topk in (None, 0):
            assert len((await retrieve(queries=["tower"], topk=topk))[0]) == 3
        assert len((await retrieve(queries=["tower"], topk=500))[0]) == 8
        assert len((await retrieve(queries=["tower"]))[0]) == 3


async def test_other_shapes_are_refused(folder: str) -> None:
    async with World(local=folder).open() as world:
        for body in ({}, {"queries": "tower"}, {"queries": [1]}, {"queries": ["x"], "topk": -1}, [], None):
            assert (await world.client.post("/retrieve", json=body)).status_code == 422
    async with World().open() as world:
        assert (await world.client.post("/retrieve", json={"queries": ["x"]})).status_code == 404


async def test_our_own_client_reads_what_our_server_says(folder: str) -> None:
    async with World(local=folder).open() as world:
        config = ProviderConfig(base_url="http://127.0.0.1:8001")
        client = Retrieval(config, Budget(), world.client._transport)
        hits = await client.search(TextQuery(text="tower number 5", top_k=2))
        assert hits[0].source.title == "Tower 5"
        assert hits[0].text == "The tower number 5 is 5 metres high."
