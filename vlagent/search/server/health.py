"""The truth about each dependency: what the last calls came to, and whether the free ones can be reached now."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from vlagent.search.server.desk import Desk
from vlagent.search.server.metrics import Reading
from vlagent.search.watch import Seen

PROBED_EVERY_S = 5.0
PROBE_S = 2.0


class Health:
    """Looks at a desk's dependencies. Probes open a connection and close it: they cost nobody anything."""

    def __init__(self, desk: Desk, service: str) -> None:
        self._desk, self._service = desk, service
        self._started = time.monotonic()
        self._probes: dict[str, tuple[float, str]] = {}
        self._lock = asyncio.Lock()

    async def report(self, *, details: bool) -> tuple[int, dict[str, Any]]:
        """Status and body of `GET /health`; 503 where no query can be answered."""
        states = await self._states()
        sources = [name for name in states if name in self._sources()]
        failing = [name for name, found in states.items() if found["state"] == "failing"]
        dead = bool(sources) and all(name in failing for name in sources)
        status = "unhealthy" if dead else "degraded" if failing else "healthy"
        body: dict[str, Any] = {"status": status, "service": self._service}
        return (503 if dead else 200), body | ({"dependencies": states} if details else {})

    def stats(self) -> dict[str, Any]:
        """Body of `GET /stats`."""
        desk, usage = self._desk, resource.getrusage(resource.RUSAGE_SELF)
        live, gate = desk.live, desk.gate
        pages, web = desk.watch.seen.get("pages", Seen()), live.web
        return {
            "server": {
                "service": self._service,
                "uptime_s": round(time.monotonic() - self._started, 1),
                "running": gate.running,
                "waiting": gate.waiting,
                "refused": gate.refused,
                "at_once": gate.at_once,
            },
            "web_scraping": {
                "read": pages.good,
                "failed": pages.failed,
                "browsers": web.browsers.alive if web else 0,
                "browsers_launched": web.browsers.launched if web else 0,
            },
            "cache_db": live.store.stats() if live.store else None,
            "resource_health": {
                "max_rss_mb": round(usage.ru_maxrss / 1024, 1),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
                "open_files": _open_files(),
                "tasks": len(asyncio.all_tasks()),
            },
            "spent": live.budget.spent.model_dump() if live.budget else None,
        }

    def readings(self) -> Iterator[Reading]:
        """For `GET /metrics`."""
        desk = self._desk
        for name, seen in desk.watch.seen.items():
            yield "vlagent_dependency_good_total", name, seen.good
            yield "vlagent_dependency_failed_total", name, seen.failed
            yield "vlagent_dependency_failing", name, float(seen.state == "failing")
        yield "vlagent_running", "", desk.gate.running
        yield "vlagent_waiting", "", desk.gate.waiting
        yield "vlagent_refused_total", "", desk.gate.refused
        if desk.live.store:
            for name, value in desk.live.store.stats().items():
                yield f"vlagent_cache_{name}{'' if name in ('entries', 'bytes') else '_total'}", "", value
        if desk.live.budget:
            for service, usd in desk.live.budget.spent.usd.items():
                yield "vlagent_spent_usd_total", service, usd
        if desk.live.web:
            yield "vlagent_browsers", "", desk.live.web.browsers.alive

    def _sources(self) -> set[str]:
        """Without any of these no query can be answered."""
        desk = self._desk
        web = {desk.web_name} if desk.has_web else set()
        return web | ({"passages"} if desk.passages else set()) | {n for n in desk.watch.seen if n[:9] == "database "}

    async def _states(self) -> dict[str, dict[str, Any]]:
        desk = self._desk
        states = {name: _told(seen) for name, seen in desk.watch.seen.items()}
        async with self._lock:
            await asyncio.gather(*(self._probe(name, url) for name, url in desk.addresses().items()))
        for name, (_, problem) in self._probes.items():
            found = states.setdefault(name, {"state": "unknown"})
            found["reachable"] = not problem
            if problem:
                found.update(state="failing", error=problem)
        if desk.passages is not None:
            states["passages"] = await asyncio.to_thread(_passages, desk.passages)
        if desk.live.store:
            kept = desk.live.store.stats()
            states["cache"] = {"state": "failing" if kept["failed_writes"] else "ok", **kept}
        return states

    async def _probe(self, name: str, url: str) -> None:
        at, _ = self._probes.get(name, (float("-inf"), ""))
        if time.monotonic() - at > PROBED_EVERY_S:
            problem = await _cannot_connect(httpx.URL(url))
            self._probes[name] = (time.monotonic(), problem)


def _told(seen: Seen) -> dict[str, Any]:
    told: dict[str, Any] = {"state": seen.state, "good": seen.good, "failed": seen.failed}
    if seen.state != "unknown":
        told["seen_s_ago"] = round(time.monotonic() - seen.at, 1)
    return told | ({"error": seen.error} if seen.in_a_row else {})


def _passages(index: Any) -> dict[str, Any]:
    """One look-up: an index whose files are gone says so here."""
    from vlagent.errors import ServiceError

    try:
        index.passages(["health"], 1)
    except ServiceError as error:
        return {"state": "failing", "error": str(error)}
    return {"state": "ok", "passages": len(index)}


async def _cannot_connect(url: httpx.URL) -> str:
    port = url.port or {"http": 80, "https": 443}[url.scheme]
    try:
        async with asyncio.timeout(PROBE_S):
            _, writer = await asyncio.open_connection(url.host, port)
    except TimeoutError:
        return f"{url.host}:{port} cannot be reached in {PROBE_S:g} s"
    except OSError as error:
        return f"{url.host}:{port} cannot be reached ({error.strerror or type(error).__name__})"
    writer.close()
    return ""


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return -1
