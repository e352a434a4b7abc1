"""Our client of our server: the same services as in this process, with one search server for many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.web_server import Fault
from tests.search.files import photo
from tests.search.server.world import QUERY, World
from tests.search.web.test_live import ask
from vlagent import images
from vlagent.errors import UserError
from vlagent.search.base import ImageQuery, TextQuery
from vlagent.search.cache.tape import Tape
from vlagent.search.live import Live, Network, open_live
from vlagent.search.live_config import LiveConfig
from vlagent.search.picture_build import index_images
from vlagent.search.text_build import index_text
from vlagent.types import Fault as Blame

KEY = "key-of-the-server"


def client_of(world: World, folder: Path, **text: Any) -> Live:
    where = {"provider": "server", "base_url": "http://127.0.0.1:8000", "attempts": 1}
    table = {"text": where | text, "images": {**where, "thumbnails": str(folder / "small")}, "cache": False}
    return open_live(LiveConfig.model_validate(table), Network(transport=world.client._transport))


async def test_the_agent_reads_through_the_server_what_it_would_read_itself(tmp_path: Path) -> None:
    async with World(links=3).open() as world:
        live = client_of(world, tmp_path)
        seen = await ask(live, QUERY)
        assert seen.fault is None
        assert not seen.degraded
        for number in range(3):
            assert world.fact(number=number) in seen.text
        assert f"Summary: {world.fact()}" in seen.text
        assert [source.url for source in seen.sources] == world.pages.links(QUERY, 3)
        await live.aclose()


async def test_what_the_server_could_not_do_is_the_worlds_fault_and_a_degraded_answer_stays_marked(
    tmp_path: Path,
) -> None:
    async with World().open() as world:
        live = client_of(world, tmp_path)
        world.chat.always = Fault("500")
        assert (await ask(live, QUERY)).degraded
        world.serper.always = Fault("quota")
        assert (await ask(live, "another")).fault is Blame.WORLD


async def test_local_mode_and_parts_of_one_document_keep_their_sources(tmp_path: Path) -> None:
    text = "\n\n".join(f"Belmont Tower has a hall {n} which is described here at length. " * 30 for n in range(4))
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "b.txt").write_text("Belmont Tower was opened in 1931.")
    index_text([tmp_path / "a.txt", tmp_path / "b.txt"], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as world:
        live = client_of(world, tmp_path, extra={"retrieval_mode": "local"})
        assert live.text
        hits = await live.text.search(TextQuery(text="When was Belmont Tower opened?", top_k=4))
        assert len(hits) > len({hit.source for hit in hits})
        by_title = {hit.source.title: hit.text for hit in hits}
        assert "1931" in by_title["b"]
        assert live.summariser
        again = await live.summariser.summarise("When was Belmont Tower opened?", hits[::-1])
        assert again.parts == tuple(hit.text for hit in hits[::-1])
        fewer = await live.summariser.summarise("When was Belmont Tower opened?", hits[:1])
        assert len(fewer.parts) == 1


async def test_pictures_and_crops_are_found_through_the_server(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for number in range(3):
        photo(number).save(tmp_path / "p" / f"p{number}.png")
    index_images([tmp_path / "p"], tmp_path / "index")
    async with World(local=str(tmp_path / "index")).open() as world:
        live = client_of(world, tmp_path)
        assert live.images
        whole = images.probe(tmp_path / "p" / "p2.png")
        for ref in (whole, images.crop(whole, (20, 20, whole.width - 20, whole.height - 20))):
            hits = await live.images.search(ImageQuery(ref))
            assert hits[0].source.title == "p2"
            assert hits[0].thumbnail
            assert images.load(hits[0].thumbnail).size[0] <= 256


async def test_the_key_is_sent_and_a_missing_one_is_an_auth_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with World(key=KEY).open() as world:
        monkeypatch.delenv("VLAGENT_SERVER_KEY", raising=False)
        seen = await ask(client_of(world, tmp_path), QUERY)
        assert seen.fault is Blame.WORLD
        monkeypatch.setenv("VLAGENT_SERVER_KEY", KEY)
        assert (await ask(client_of(world, tmp_path), QUERY)).fault is None


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its address is needed"):
        open_live(LiveConfig.model_validate({"text": {"provider": "server"}}))
    table = {"text": {"provider": "server", "base_url": "http://127.0.0.1:8000"}}
    with pytest.raises(UserError, match="is not recorded"):
        open_live(LiveConfig.model_validate(table), Network(tape=Tape(tmp_path, "record")))
