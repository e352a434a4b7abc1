"""`python -m accept.card [NAME...]`: play shipped checkpoints on held-out worlds; prints the table of the model card.

The counts go to vlagent/checkpoints/scores.json, where those of checkpoints that are not named stay as they are.
Episodes run through the real loop at temperature 1, as each checkpoint's agent.json says.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path
from typing import Any

from accept.issue_2 import SEED, open_world, play
from vlagent.bench.summary import SuiteSummary
from vlagent.cli.shipped import CHECKPOINTS, PREFIX, shipped
from vlagent.files import read_json, write_json
from vlagent.toy.lexicon import KINDS

WORLDS = {"level 2": ("test", 2, 200), "unseen brands": ("test_open", 2, 60), "level 3": ("test", 3, 60)}
"""Split, level, questions a kind."""
SCORES = CHECKPOINTS / "scores.json"


def main() -> int:
    """Every named checkpoint, or all, in every world."""
    names = sys.argv[1:] or shipped()
    scores: dict[str, Any] = read_json(SCORES) if SCORES.exists() else {"seed": SEED, "worlds": {}}
    with tempfile.TemporaryDirectory() as folder:
        for title, (split, level, each) in WORLDS.items():
            world = open_world(Path(folder) / title, each, split, level)
            part = scores["worlds"].setdefault(title, {"each": each, "guess": world.guess, "right": {}})
            for name in names:
                part["right"][name] = rights(play(f"{PREFIX}{name}", world, Path(folder) / f"{title}-{name}"))
                print(title, name, part["right"][name], file=sys.stderr, flush=True)
    write_json(SCORES, scores)
    print(table(scores))
    return 0


def rights(summary: SuiteSummary) -> dict[str, int]:
    """Right answers by kind."""
    return {kind: summary.slices["kind"][kind].right for kind in KINDS}


def table(scores: dict[str, Any]) -> str:
    """Shares in percent with standard errors, a row a checkpoint and world."""
    lines = [f"| checkpoint | world | macro | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 3) + "|"]
    for title, world in scores["worlds"].items():
        each = world["each"]
        for name, right in world["right"].items():
            cells = [percent(right[kind], each) for kind in KINDS]
            lines.append(
                f"| {name} | {title} | {percent(sum(right.values()), each * len(KINDS))} | {' | '.join(cells)} |"
            )
        guess = [f"{100 * world['guess'][kind]:.1f}" for kind in KINDS]
        lines.append(f"| guess level | {title} | | {' | '.join(guess)} |")
    return "\n".join(lines)


def percent(right: int, total: int) -> str:
    """`85.0 ± 2.5`: a share and its standard error."""
    share = right / total
    return f"{100 * share:.1f} ± {100 * math.sqrt(share * (1 - share) / total):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
