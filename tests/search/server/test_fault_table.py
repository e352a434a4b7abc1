"""Each dependency, each way to fail, through the server: a right answer, a marked one that is not kept, or a typed
error, within the deadline; and all is well again without a restart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tests.fakes.web_server import Fake, Fault, FaultKind
from tests.search.server.world import World

FAULTS: tuple[FaultKind, ...] = (
    "500", "hang", "reset", "garbage", "slow", "wrong_type", "429", "quota", "auth", "truncated", "empty",
)  # fmt: skip
DEADLINE_S = 30.0
PATIENCE_S = 5.0
"""Of each dependency: long for a busy machine, short for a hang."""
WAITING = ("hang", "slow")
AT_ONCE = 3
"""Cells at one time that have work to do; those that wait do so together."""


@dataclass(frozen=True)
class Dependency:
    fake: Callable[[World], Fake]
    ends: str
    """`error`: nothing to answer from. `degraded`: the rest suffices, and the answer says that it is the rest."""


DEPENDENCIES = {
    "search": Dependency(lambda world: world.serper, "error"),
    "pages": Dependency(lambda world: world.pages, "degraded"),
    "summariser": Dependency(lambda world: world.chat, "degraded"),
}
STATUS = {"429": 503, "quota": 502, "auth": 502}
"""Of a failed search; any other is worth another try: 503."""


def outcome(said: httpx.Response) -> str:
    """How a cell ended, in one word."""
    if said.status_code == 200:
        return "degraded" if said.headers.get("x-degraded") else "right"
    error = said.json()["error"]
    return "error" if error["type"].endswith(("Error", "Exceeded")) and error["service"] else "untyped"


async def cell(dependency: str, kind: FaultKind) -> dict[str, Any]:
    """What one fault of one dependency ends in, and what comes after it."""
    found = DEPENDENCIES[dependency]
    async with World(options={"deadline_s": DEADLINE_S}, patience_s=PATIENCE_S).open() as world:
        fake = found.fake(world)
        fake.always = Fault(kind)
        started = time.monotonic()
        said = await world.ask()
        seconds = time.monotonic() - started
        fake.always = None
        healed = await world.ask()
        return {
            "dependency": dependency,
            "fault": kind,
            "ends": outcome(said),
            "status": said.status_code,
            "seconds": seconds,
            "healed": outcome(healed),
            "right": world.fact() in healed.text,
            "words": said.text,
        }


async def table() -> list[dict[str, Any]]:
    """Every cell."""
    cells = [(dependency, kind) for dependency in DEPENDENCIES for kind in FAULTS]
    waiting = [one for one in cells if one[1] in WAITING]
    found = await asyncio.gather(*(cell(*one) for one in waiting))
    limit = asyncio.Semaphore(AT_ONCE)

    async def quick(dependency: str, kind: FaultKind) -> dict[str, Any]:
        async with limit:
            return await cell(dependency, kind)

    return [*found, *await asyncio.gather(*(quick(*one) for one in cells if one not in waiting))]


async def test_every_fault_of_every_dependency_ends_well() -> None:
    for found in await table():
        dependency = found["dependency"]
        assert found["ends"] == DEPENDENCIES[dependency].ends, found
        assert found["seconds"] < DEADLINE_S, found
        assert found["healed"] == "right", found
        assert found["right"], found
        if dependency == "search":
            assert found["status"] == STATUS.get(str(found["fault"]), 503), found


async def test_one_fault_among_many_pages_leaves_the_right_answer() -> None:
    async with World(links=5).open() as world:
        world.pages.faults.append(Fault("reset"))
        world.pages.faults.append(Fault("reset"))
        said = await world.ask()
        assert outcome(said) == "right"
        assert world.pages.counts["pages"] == 5


async def test_a_database_that_fails_is_an_error_and_heals() -> None:
    async with World().open() as stage:
        world = World(local=stage.pages.url)
        async with world.open():
            stage.pages.always = Fault("500")
            said = await world.ask(retrieval_mode="local")
            assert (said.status_code, outcome(said)) == (503, "error")
            assert "database" in (await world.client.get("/health")).json()["dependencies"].__str__()
