"""A recorded evaluation plays again with the network cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.search.web.world import World
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.chat.base import ChatModel, ChatRequest, Message, TextPart
from vlagent.chat.http import HttpChat, HttpOptions
from vlagent.cli.taping import taped
from vlagent.errors import AuthError, PermanentError, RateLimitedError, TransientError, UserError
from vlagent.search.base import TextQuery
from vlagent.search.cache.tape import Tape
from vlagent.search.cache.taped import HITS, Absent, TapedImages
from vlagent.search.live import Live
from vlagent.tools.registry import make_tools
from vlagent.types import Hit, ImageRef, Sample, Source

FREE = {"latency_s", "timings", "usage", "retries", "total_s", "model_s", "tools_s", "cost_usd", "seconds", "rates"}
"""Timing and cost."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLAGENT_SERPER_KEY", "serper-secret-key")


class Thinking(World):
    """The world, with a policy that searches and then answers from what it read."""

    def _reply(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["model"] != "policy":
            return super()._reply(body)
        read = [message for message in body["messages"] if "Summary" in json.dumps(message)]
        call = '<tool_call>{"name": "text_search", "arguments": {"query": "Belmont Tower opened"}}</tool_call>'
        said = f"<think>I know.</think><answer>{len(json.dumps(read))}</answer>" if read else f"<think>?</think>{call}"
        return {"choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}]}


async def run(world: World, folder: Path, tape: Tape | None, samples: list[Sample]) -> dict[str, Any]:
    """One evaluation; what it leaves but for timing and cost."""
    table = {"cache": {"path": str(folder.with_suffix(".sqlite"))}}
    live: Live = world.live(table, tape=tape)
    config = AgentConfig(tools=("text_search",), max_turns=3)
    model = taped(
        tape, "policy", "policy", lambda: HttpChat("policy", HttpOptions(base_url="http://llm.example/v1"), world)
    )
    agent = Agent(model=model, config=config, tools=make_tools(("text_search",), search=live), search=live)
    await evaluate(EvalConfig(target="t", model="policy", agent=config), agent, samples, folder)
    await live.aclose()
    left = {}
    for name in ("rows.jsonl", "trajectories.jsonl"):
        lines = [_kept(json.loads(line)) for line in (folder / name).read_text().splitlines()]
        left[name] = sorted(lines, key=lambda line: line["sample_id"])
    return left


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kept(inner) for name, inner in value.items() if name not in FREE}
    return [_kept(inner) for inner in value] if isinstance(value, list) else value


SAMPLES = [
    Sample(id=str(n), source="toy", question=f"When was Belmont Tower opened? ({n})", answers=("1931",))
    for n in range(4)
]


async def test_a_recorded_evaluation_replays_with_the_network_cut(tmp_path: Path) -> None:
    world = Thinking()
    world.broken["site3.example"] = 500
    recorded = await run(world, tmp_path / "first", Tape(tmp_path / "tape", "record"), SAMPLES)
    assert recorded["trajectories.jsonl"][0]["turns"][0]["observation"]["degraded"]

    world.cut = True
    replayed = await run(world, tmp_path / "second", Tape(tmp_path / "tape", "replay"), SAMPLES)
    assert replayed == recorded
    assert "serper-secret-key" not in (tmp_path / "tape" / "tape.jsonl").read_text()


async def test_a_recording_is_whole_even_where_a_cache_answers(tmp_path: Path) -> None:
    world = Thinking()
    table = {"cache": {"path": str(tmp_path / "c.sqlite")}}
    warm = world.live(table)
    assert warm.text
    assert warm.summariser
    query = TextQuery(text="q")
    await warm.summariser.summarise("q", await warm.text.search(query))
    first = world.live(table, tape=Tape(tmp_path / "tape", "record"))
    assert first.text
    assert first.summariser
    found = await first.text.search(query)
    summary = await first.summariser.summarise("q", found)
    world.cut = True
    second = world.live(table, tape=Tape(tmp_path / "tape", "replay"))
    assert second.text
    assert second.summariser
    assert await second.text.search(query) == found
    assert await second.summariser.summarise("q", found) == summary


async def test_what_was_not_recorded_fails_and_says_so(tmp_path: Path) -> None:
    await run(Thinking(), tmp_path / "first", Tape(tmp_path / "tape", "record"), SAMPLES[:1])
    live = Thinking().live(tape=Tape(tmp_path / "tape", "replay"))
    assert live.text
    with pytest.raises(PermanentError, match="was recorded for"):
        await live.text.search(TextQuery(text="another query"))
    with pytest.raises(UserError, match="--record"):
        Tape(tmp_path / "nothing", "replay")


async def test_failures_come_back_in_their_order_and_with_their_type(tmp_path: Path) -> None:
    outcomes: list[Any] = [
        RateLimitedError("s", "slow", retry_after_s=3.0),
        TransientError("s", "down"),
        AuthError("s", "no"),
        [Hit(source=Source(title="T"))],
    ]

    async def make() -> list[Hit]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def four(tape: Tape) -> list[Any]:
        got: list[Any] = []
        for _ in range(4):
            try:
                got.append(await tape.through("text", "q", make, HITS))
            except Exception as error:  # noqa: BLE001 - compared below
                got.append((type(error), str(error), getattr(error, "retry_after_s", None)))
        return got

    recorded = await four(Tape(tmp_path, "record"))
    assert [each[0] if isinstance(each, tuple) else each for each in recorded][:3] == [
        RateLimitedError,
        TransientError,
        AuthError,
    ]
    assert await four(Tape(tmp_path, "replay")) == recorded


async def test_a_second_recording_in_the_same_folder_is_what_plays(tmp_path: Path) -> None:
    async def ask(tape: Tape, said: str, *requests: str) -> list[str]:
        async def make() -> list[Hit]:
            return [Hit(source=Source(title=said))]

        return [(await tape.through("text", each, make, HITS))[0].source.title for each in requests]

    await ask(Tape(tmp_path, "record"), "first run", "a", "b")
    again = Tape(tmp_path, "record")
    await ask(again, "second run", "a")
    await ask(again, "second run, later", "a")
    replay = Tape(tmp_path, "replay")
    played = [await ask(replay, "", "a") for _ in range(3)]
    assert played == [["second run"], ["second run, later"], ["second run, later"]]
    assert await ask(replay, "", "b") == ["first run"], "a run that goes on keeps what it had"


def test_a_file_for_a_folder_and_a_strange_line_are_the_users_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for mode in ("record", "replay"):
        with pytest.raises(UserError, match="file: this is a file; name a folder"):
            Tape(tmp_path / "file", mode)  # type: ignore[arg-type]
    (tmp_path / "tape.jsonl").write_text('{"version": 1, "kind": "text"}\n')
    with pytest.raises(UserError, match=r"tape\.jsonl:1: no line of a recording \('key' is missing\)"):
        Tape(tmp_path, "replay")


async def test_pictures_are_known_by_content_and_thumbnails_travel(tmp_path: Path) -> None:
    from PIL import Image

    from vlagent import images
    from vlagent.search.base import ImageQuery

    for name in ("a.png", "b.png"):
        Image.new("RGB", (40, 30), (1, 2, 3)).save(tmp_path / name)
    Image.new("RGB", (40, 30), (9, 9, 9)).save(tmp_path / "thumb.png")

    class Found:
        async def search(self, query: ImageQuery) -> list[Hit]:
            return [Hit(source=Source(title="T"), thumbnail=images.probe(tmp_path / "thumb.png"))]

    def asked(name: str) -> ImageQuery:
        return ImageQuery(images.probe(tmp_path / name))

    recorded = await TapedImages(Tape(tmp_path / "tape", "record"), "lens", Found()).search(asked("a.png"))
    (tmp_path / "thumb.png").unlink()
    replayed = await TapedImages(Tape(tmp_path / "tape", "replay"), "lens", None).search(asked("b.png"))
    assert replayed == recorded
    thumbnail: ImageRef | None = replayed[0].thumbnail
    assert thumbnail
    assert images.load(thumbnail).getpixel((0, 0)) == (9, 9, 9)


async def test_models_of_this_process_are_not_taped_and_absent_ones_need_a_name(tmp_path: Path) -> None:
    inner: ChatModel = Absent("local:x")
    tape = Tape(tmp_path, "record")
    assert taped(tape, "policy", "shipped:trained", lambda: inner) is inner
    assert taped(None, "policy", "gpt", lambda: inner) is inner
    (tmp_path / "tape.jsonl").touch()
    with pytest.raises(UserError, match="--model"):
        taped(Tape(tmp_path, "replay"), "policy", None, lambda: inner)
    replayed = taped(Tape(tmp_path, "replay"), "policy", "gpt", lambda: inner)
    with pytest.raises(PermanentError, match="policy gpt was recorded"):
        await replayed.complete(ChatRequest(messages=(Message("user", (TextPart("hello"),)),)))
