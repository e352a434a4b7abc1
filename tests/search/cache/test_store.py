"""The cache: fresh, bounded, versioned, disposable; and identical requests that share a call."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from vlagent.errors import TransientError, UserError
from vlagent.search.cache import store as store_module
from vlagent.search.cache.flight import SingleFlight
from vlagent.search.cache.layer import Layer
from vlagent.search.cache.store import CacheConfig, Store


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_value_is_kept_for_its_time_and_no_longer() -> None:
    clock = Clock()
    store = Store(now=clock)
    await store.put("page", "a", b"one", ttl_s=60)
    assert store.get("page", "a") == b"one"
    assert store.get("search", "a") is None
    clock.now += 61
    assert store.get("page", "a") is None
    assert (store.hits, store.misses) == (1, 2)


async def test_two_processes_share_a_file_and_it_outlives_both(tmp_path: Path) -> None:
    config = CacheConfig(path=str(tmp_path / "c.sqlite"))
    first, second = Store(config), Store(config)
    await first.put("page", "a", b"one", ttl_s=60)
    assert second.get("page", "a") == b"one"
    first.close()
    second.close()
    assert Store(config).get("page", "a") == b"one"
    assert sqlite3.connect(config.path or "").execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_what_was_used_longest_ago_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_CHECKED_EVERY", 1)
    clock = Clock()
    store = Store(CacheConfig(path=str(tmp_path / "c.sqlite"), max_mb=0.05), now=clock)
    for number in range(10):
        clock.now += 1
        await store.put("page", str(number), b"x" * 10_000, ttl_s=9999)
        assert store.get("page", "0") is not None, "it is used each time"
    assert store.stats()["bytes"] <= 50_000
    assert store.get("page", "9") is not None
    assert store.get("page", "1") is None


async def test_a_damaged_file_and_one_of_another_version_are_started_anew(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = Store(CacheConfig(path=str(path)))
    await store.put("page", "b", b"two", ttl_s=60)
    store.close()
    path.write_bytes(path.read_bytes()[:100] + b"damaged " * 1000)
    store = Store(CacheConfig(path=str(path)))
    assert store.get("page", "b") is None
    await store.put("page", "a", b"one", ttl_s=60)
    assert store.get("page", "a") == b"one"
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 99")
    other.close()
    assert Store(CacheConfig(path=str(path))).get("page", "a") is None


async def test_a_file_that_is_damaged_behind_its_head_costs_one_write(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = Store(CacheConfig(path=str(path)))
    for number in range(50):
        await store.put("page", str(number), b"x" * 3000, ttl_s=60)
    store.close()
    raw = path.read_bytes()
    path.write_bytes(raw[:4096] + b"\xff" * (len(raw) - 4096))
    store = Store(CacheConfig(path=str(path)))
    assert store.get("page", "7") is None
    await store.put("page", "a", b"lost", ttl_s=60)
    await store.put("page", "a", b"one", ttl_s=60)
    assert store.get("page", "a") == b"one"
    assert store.failed_writes == 1


@pytest.mark.parametrize("kind", ["notes", "database", "other_version"])
def test_a_file_that_is_no_cache_stays_as_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine"
    if kind == "notes":
        path.write_text("- [ ] buy milk\n")
    else:
        with sqlite3.connect(path) as mine:
            mine.execute("CREATE TABLE entries (mine TEXT)")
            mine.execute(f"PRAGMA user_version = {0 if kind == 'database' else 7}")
        mine.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match=r"mine: holds something else .*cache\.path"):
        Store(CacheConfig(path=str(path)))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


async def test_a_write_that_fails_is_counted_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    store = Store(CacheConfig(path=str(path)))
    with sqlite3.connect(path) as other:
        other.execute("DROP TABLE entries")
    other.close()
    await store.put("page", "a", b"one", ttl_s=60)
    assert store.failed_writes == 1
    assert store.get("page", "a") is None


def test_a_place_that_cannot_be_written_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cache\.path"):
        Store(CacheConfig(path=str(tmp_path / "file" / "c.sqlite")))


async def test_a_layer_keeps_what_it_may_and_calls_once_for_all() -> None:
    calls = []

    async def make() -> list[int]:
        calls.append(1)
        await asyncio.sleep(0.01)
        return [] if len(calls) == 1 else [7]

    layer: Layer[list[int]] = Layer(Store(), "numbers", TypeAdapter(list[int]), lambda value: 60.0 if value else None)
    assert await asyncio.gather(*(layer.get("a", make) for _ in range(20))) == [[]] * 20
    assert len(calls) == 1
    assert await layer.get("a", make) == [7]
    assert await layer.get("a", make) == [7]
    assert len(calls) == 2


async def test_errors_are_shared_in_flight_and_never_kept() -> None:
    calls = []

    async def fail() -> int:
        calls.append(1)
        await asyncio.sleep(0.01)
        raise TransientError("x", "down")

    layer: Layer[int] = Layer(Store(), "n", TypeAdapter(int), lambda _: 60.0)
    outcomes = await asyncio.gather(*(layer.get("a", fail) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, TransientError) for outcome in outcomes)
    assert len(calls) == 1
    with pytest.raises(TransientError):
        await layer.get("a", fail)
    assert len(calls) == 2


async def test_one_who_leaves_does_not_take_the_call_from_the_others() -> None:
    flights, ended = SingleFlight(), []

    async def slow() -> str:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("done")
        return "value"

    tasks = [asyncio.ensure_future(flights.run("k", slow)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    assert await tasks[1] == await tasks[2] == "value"
    lonely: asyncio.Task[Any] = asyncio.ensure_future(flights.run("k", slow))
    await asyncio.sleep(0.01)
    lonely.cancel()
    await asyncio.gather(lonely, return_exceptions=True)
    await asyncio.sleep(0.01)
    assert ended == ["done", "cancelled"]
