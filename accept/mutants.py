"""Deliberate faults of the algorithm under test: a run that is started with one must learn worse, or not at all.

`python -m accept.mutants NAME rl CONFIG ...` is `vlagent rl CONFIG ...` with the fault in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accept.breaking import put


def bn_gspo_sign() -> None:
    """The advantages of `bn_gspo` with the wrong sign."""
    from vlagent.train.rl.algorithms.registry import ADVANTAGES

    right = ADVANTAGES["bn_gspo"]

    def wrong(rewards: Any, config: Any) -> Any:
        found = right(rewards, config)
        return replace(found, values=-found.values)

    ADVANTAGES["bn_gspo"] = wrong


def objective_sign() -> None:
    """A loss that is lowered by what should be avoided."""
    from vlagent.train.rl.algorithms import objective

    right = objective.surrogate
    put(objective, surrogate=lambda ratio, advantages, config: -right(ratio, advantages, config))


def mask_dropped() -> None:
    """Every token of a row trains, observations and pictures too."""
    from vlagent.train.rl import groups

    right = groups._row

    def wrong(*args: Any) -> Any:
        row = right(*args)
        row.mask[1:] = True
        return row

    put(groups, _row=wrong)


MUTANTS: dict[str, Callable[[], None]] = {
    "bn_gspo_sign": bn_gspo_sign,
    "objective_sign": objective_sign,
    "mask_dropped": mask_dropped,
}


def main() -> int:
    """Put the fault in, then run the verb."""
    from vlagent.cli.main import main as verb

    MUTANTS[sys.argv[1]]()
    del sys.argv[1]
    return int(verb() or 0)


if __name__ == "__main__":
    sys.exit(main())
