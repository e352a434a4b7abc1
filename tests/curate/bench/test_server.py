"""What the page's server gives to whom."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from PIL import Image

from tests.curate.bench.conftest import FINISHED, write
from vlagent.curate.bench import book
from vlagent.curate.bench.folder import Bench, open_bench
from vlagent.errors import UserError
from vlagent.files import only_writer

testclient = pytest.importorskip("fastapi.testclient", reason="the extra [serve] is not installed")
HOME = "http://127.0.0.1:8765"


@pytest.fixture
def page(bench: Bench) -> Iterator[Any]:
    from vlagent.curate.bench.server import make_app

    with testclient.TestClient(make_app(bench, 8765), base_url=HOME, headers={"origin": HOME}) as client:
        yield client


def test_a_reviewer_learns_nothing_of_the_answers_before_giving_an_own_one(bench: Bench, page: Any) -> None:
    item = write(bench, notes="the clue is in the log")
    text = page.get("/api/state?who=bob").text
    assert item.question in text
    for secret in ("Harbour Trust", "evidence.txt", "the clue", str(list(item.box or ())).replace(" ", "")):
        assert secret not in text
    said = page.post(f"/api/items/{item.id}/answer", json={"who": "bob", "answer": "no idea"}).json()
    assert (said["review"]["matched"], said["item"]["answers"]) == (False, ["Harbour Trust"])
    assert page.get(f"/api/items/{item.id}/history?who=bob").json() == []


def test_drafts_of_others_are_not_shown(bench: Bench, page: Any) -> None:
    write(bench, state="draft", question="Half a question")
    state = page.get("/api/state?who=bob").json()
    assert "Half a question" not in str(state)
    assert max(state["others"].values()) == 1


def test_only_this_machine_and_only_this_page_may_change_anything(bench: Bench, page: Any) -> None:
    body = {"who": "ann", "picture": next(iter(bench.pictures()))}
    assert page.get("/api/state?who=ann", headers={"host": "evil.example"}).status_code == 403
    assert page.post("/api/items", json=body, headers={"origin": "http://evil.example"}).status_code == 403
    assert page.post("/api/items", content=str(body), headers={"content-type": "text/plain"}).status_code == 403
    assert bench.items() == {}
    assert page.post("/api/items", json=body).status_code == 200


def test_mistakes_are_one_line_with_a_status_of_their_own(bench: Bench, page: Any) -> None:
    item = write(bench)
    stale = page.put(f"/api/items/{item.id}", json={"who": "ann", "base": 1, "fields": {"question": "?"}})
    assert (stale.status_code, "saved elsewhere" in stale.json()["error"]) == (409, True)
    lost = page.put("/api/items/none-1", json={"who": "ann", "base": 1, "fields": {}})
    assert (lost.status_code, "has none of that name" in lost.json()["error"]) == (422, True)
    wrong = page.put(f"/api/items/{item.id}", json={"who": "ann", "base": 2, "fields": {"box": [9, 9, 1, 1]}})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "box (9, 9, 1, 1) has no area")
    assert page.get("/api/state?who=../x").status_code == 422
    assert page.get("/pictures/none").status_code == 404
    assert page.get("/assets/server.py").status_code == 404


def test_nobody_saves_the_question_of_another(bench: Bench, page: Any) -> None:
    item = write(bench)
    answer = page.put(
        f"/api/items/{item.id}", json={"who": "bob", "base": 2, "fields": {**FINISHED, "question": "Mine?"}}
    )
    assert answer.status_code == 422
    assert bench.items()[item.id] == item


def test_pictures_come_as_jpeg_without_asking_any_network(bench: Bench, page: Any) -> None:
    answer = page.get(f"/pictures/{next(iter(bench.pictures()))}")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.content.startswith(b"\xff\xd8\xff")
    small = page.get(f"/pictures/{next(iter(bench.pictures()))}?small=1").content
    assert Image.open(io.BytesIO(small)).size == (112, 84)
    policy = page.get("/").headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy


def test_a_second_server_and_an_open_address_are_refused(bench: Bench) -> None:
    from vlagent.curate.bench.server import serve

    with pytest.raises(UserError, match="SSH tunnel"):
        serve(bench, "0.0.0.0", 0)
    with only_writer(bench.folder / "annotations"), pytest.raises(UserError, match="another process"):
        serve(bench, "127.0.0.1", 0)
    with pytest.raises(UserError, match="no pictures in it"):
        serve(Bench(bench.folder / "empty"), "127.0.0.1", 0)
    for port in (-1, 65_536):
        with pytest.raises(UserError, match=f"--port {port}: a number from 0 to 65535"):
            serve(bench, "127.0.0.1", port)


def test_a_disputed_question_is_shown_to_those_who_took_no_part(bench: Bench, page: Any) -> None:
    item = write(bench)
    book.answer_blind(bench, "bob", item.id, "x")
    book.review(bench, "bob", item.id, "dispute", "unclear")
    shown = {who: len(page.get(f"/api/state?who={who}").json()["disputes"]) for who in ("ann", "bob", "eve")}
    assert shown == {"ann": 0, "bob": 0, "eve": 1}
    assert open_bench(bench.folder).reviews()[item.id][0].why == "unclear"
