"""All fakes of a search server in one process, for load: `python -m tests.fakes.load_world`.

Prints their addresses as one line of JSON and serves until its input ends. `GET control/counts` says how often each was
asked since the last time, and what it refused.
"""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from tests.fakes.chat_server import Chat
from tests.fakes.pages_server import Pages
from tests.fakes.search_engines import Serper
from tests.fakes.web_server import Answer, Asked, Fake, as_json


class Control(Fake):
    """What became of the others."""

    def __init__(self, fakes: dict[str, Fake]) -> None:
        super().__init__()
        self.fakes = fakes

    def reply(self, asked: Asked) -> Answer:
        said = {name: {**fake.counts, "refused": fake.refused[:3]} for name, fake in self.fakes.items()}
        for fake in self.fakes.values():
            fake.counts.clear()
        return as_json(said)


async def main() -> None:
    """Serve: search 50 ms, pages of 50 kB 50 ms, model 200 ms."""
    pages = Pages()
    fakes: dict[str, Fake] = {"pages": pages, "search": Serper(pages.links), "model": Chat()}
    control = Control(fakes)
    for fake in (*fakes.values(), control):
        fake.most_seen = 0
        await fake.serve()
    addresses = {name: fake.url for name, fake in {**fakes, "control": control}.items()}
    print(json.dumps(addresses), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main())
