"""Stage 5: pass@k. A question is hard if none of k answers (8 in the paper), tools allowed, is right."""

from __future__ import annotations

from vlagent.curate.bench.folder import Bench
from vlagent.curate.bench.play import Player, Tell, folder_of, play, samples_of
from vlagent.curate.bench.records import Difficulty, Item
from vlagent.files import append_jsonl
from vlagent.types import Record


class Measured(Record):
    """What was found."""

    hard: int
    easy: int
    known: int
    """Measured before."""
    undecided: tuple[str, ...] = ()
    """Questions of which a service left episodes unscored; the same command plays these again."""


def to_measure(bench: Bench, player: Player | None = None) -> list[Item]:
    """Finished questions without a difficulty by this model and this k; without a player, by any model."""
    known, k = bench.difficulty(), bench.config.k
    items = [item for item in bench.items().values() if item.state == "done"]
    if player is None:
        return [item for item in items if item.id not in known]
    by = player.agent.model.name
    return [item for item in items if item.id not in known or (known[item.id].k, known[item.id].model) != (k, by)]


async def measure(bench: Bench, player: Player, tell: Tell | None = None) -> Measured:
    """Play what has no difficulty yet, and keep it."""
    items, k = to_measure(bench, player), bench.config.k
    samples = samples_of(bench, items)
    rows = await play(folder_of(bench, "difficulty", player), player, list(samples.values()), k, tell)
    found, undecided = [], []
    for item in items:
        own = rows[samples[item.id].id]
        right = sum(row.outcome == "right" for row in own)
        # One right answer makes it easy, whatever the missing ones would have been.
        if len(own) < k and right == 0:
            undecided.append(item.id)
            continue
        said = Difficulty(item=item.id, content=item.content, k=k, right=right, model=player.agent.model.name)
        append_jsonl(bench.folder / "difficulty.jsonl", said)
        found.append(said)
    hard = sum(each.level == "hard" for each in found)
    done = sum(item.state == "done" for item in bench.items().values())
    return Measured(hard=hard, easy=len(found) - hard, known=done - len(items), undecided=tuple(undecided))
