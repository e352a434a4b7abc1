"""A pytest plugin that breaks reinforcement learning, to see that the tests notice (VLAGENT_MUTANT=NAME).

NAME is one of `accept.mutants`, or `resumes`: a resumed run forgets its optimizer, and one process scales its loss
otherwise than several do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def pytest_configure() -> None:
    """Break it, where the environment asks for that."""
    name = os.environ.get("VLAGENT_MUTANT")
    if name:
        from accept.mutants import MUTANTS

        {**MUTANTS, "resumes": resumes}[name]()


def resumes() -> None:
    """Faults in going on and in sharing a step."""
    from vlagent.train.rl import run
    from vlagent.train.rl.minibatch import Minibatch

    read, scale = vars(run)["read_checkpoint"], Minibatch.scale

    def forget(folder: Path, model: Any, optimizer: Any, *more: Any) -> Any:
        position = read(folder, model, optimizer, *more)
        optimizer.state.clear()
        return position

    vars(run)["read_checkpoint"] = forget
    Minibatch.scale = lambda self, aggregation: 1.5 * scale(self, aggregation)  # type: ignore[method-assign]
