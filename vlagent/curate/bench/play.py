"""Let a model answer the questions of a benchmark, each several times, without ever paying twice.

An episode is filed under the question's id and content, so a changed question is asked anew and the others are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlagent.agent.loop import Agent
from vlagent.agent.pool import run_pool
from vlagent.agent.store import write_trajectory
from vlagent.bench.counts import is_scored
from vlagent.bench.evaluate import row_of
from vlagent.bench.runs import read_book
from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.records import Item
from vlagent.curate.budget import CALLS, Paid
from vlagent.files import only_writer, write_json
from vlagent.rewards.opinions import Marker
from vlagent.types import EvalRow, Sample

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Player:
    """A model with what it may use."""

    agent: Agent
    judge: Marker | None = None
    """Marks what no rule accepts; None leaves it to the rules."""
    concurrency: int = 8

    @property
    def digest(self) -> str:
        """Of all that decides an answer: the model and how it is asked."""
        return hashlib.blake2b(json.dumps(self.settings).encode(), digest_size=5).hexdigest()

    @property
    def settings(self) -> dict[str, Any]:
        judge = getattr(self.judge, "name", None)
        return {"model": self.agent.model.name, "judge": judge, "agent": self.agent.config.model_dump(mode="json")}


def samples_of(bench: Bench, items: Sequence[Item], *, with_picture: bool = True) -> dict[str, Sample]:
    """Id of a question -> the question as an agent gets it."""
    pictures, name = bench.pictures(), bench.config.name
    return {
        item.id: Sample(
            id=f"{item.id}@{item.content}",
            source=name,
            question=item.question,
            images=(bench.ref(pictures[item.picture]),) if with_picture else (),
            answers=item.answers,
            extra={"category": item.domain},
        )
        for item in items
    }


def folder_of(bench: Bench, what: str, player: Player) -> Path:
    """Where the episodes of one player lie: another model, or another way to ask it, has another folder."""
    return bench.folder / "plays" / f"{what}-{player.digest}"


async def play(
    folder: Path, player: Player, samples: Sequence[Sample], k: int, tell: Tell | None = None
) -> dict[str, list[EvalRow]]:
    """Sample id -> its scored episodes, at most k; fewer where a service failed (the next call tries these again).

    Raises `UserError` where another process plays into the folder.
    """
    with only_writer(folder):
        write_json(folder / "config.json", player.settings)
        book = read_book(folder, samples, lambda _: k)
        agent = replace(player.agent, model=Paid(player.agent.model, folder / CALLS), folder=folder / "images")
        for sample, trajectory in book.to_score():
            book.add(await row_of(sample, trajectory, player.judge))
        left = book.to_play()
        done = len(book.planned) - len(left)
        async with aclosing(run_pool(agent, left, concurrency=player.concurrency)) as ended:
            async for sample, trajectory in ended:
                write_trajectory(folder, trajectory)
                book.add(await row_of(sample, trajectory, player.judge))
                done += 1
                if tell:
                    tell(done, len(book.planned))
    wanted = {(sample.id, rollout) for sample, rollout in book.planned}
    scored = [row for key, row in book.rows.items() if key in wanted and is_scored(row)]
    return {sample.id: [row for row in scored if row.sample_id == sample.id] for sample in samples}


def left_in(folder: Path, samples: Sequence[Sample], k: int) -> int:
    """Episodes that are still to be played."""
    return len(read_book(folder, samples, lambda _: k).to_play())
