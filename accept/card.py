"""`python -m accept.card [FOLDER]`: play checkpoints on held-out worlds; writes scores.json and prints the card's table.

FOLDER is where the checkpoints lie, the package's own by default; scores.json is written there. Episodes run through the real loop at
temperature 1, as each checkpoint's agent.json says. An interrupted run goes on.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from accept.issue_2 import SEED, World, open_world, play
from vlagent.bench.summary import SuiteSummary
from vlagent.cli.shipped import CHECKPOINTS
from vlagent.files import write_json
from vlagent.toy.lexicon import KINDS

EACH = 200
"""Questions a kind."""
WORLDS = {"level 2": ("test", 2), "level 2, unseen brands": ("test_open", 2), "level 3": ("test", 3)}
RUNS = Path("runs/card")


def main() -> int:
    """Every checkpoint of the folder in every world."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else CHECKPOINTS
    names = sorted(path.parent.name for path in folder.glob("*/agent.json"))
    scores: dict[str, Any] = {"seed": SEED, "each": EACH, "worlds": {}}
    for title, (split, level) in WORLDS.items():
        world = open_world(RUNS / f"world-{split}-{level}", EACH, split, level)
        scores["worlds"][title] = {"guess": world.guess, "right": {n: _right(folder / n, world, title) for n in names}}
    write_json(folder / "scores.json", scores)
    print(table(scores))
    return 0


def _right(checkpoint: Path, world: World, title: str) -> dict[str, int]:
    run = RUNS / f"{checkpoint.name}-{title.replace(',', '').replace(' ', '-')}"
    return rights(play(f"local:{checkpoint}", world, run))


def rights(summary: SuiteSummary) -> dict[str, int]:
    """Right answers by kind."""
    return {kind: summary.slices["kind"][kind].right for kind in KINDS}


def table(scores: dict[str, Any]) -> str:
    """Shares in percent with standard errors, a row a checkpoint and world."""
    each = scores["each"]
    lines = [f"| checkpoint | world | macro | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 3) + "|"]
    for title, world in scores["worlds"].items():
        for name, right in world["right"].items():
            cells = [percent(right[kind], each) for kind in KINDS]
            lines.append(f"| {name} | {title} | {percent(sum(right.values()), each * len(KINDS))} | {' | '.join(cells)} |")
        guess = [f"{100 * world['guess'][kind]:.1f}" for kind in KINDS]
        mean = 100 * sum(world["guess"].values()) / len(KINDS)
        lines.append(f"| guess level | {title} | {mean:.1f} | {' | '.join(guess)} |")
    return "\n".join(lines)


def percent(right: int, total: int) -> str:
    """`85.0 ± 2.5`: a share and its standard error."""
    share = right / total
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / total):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
