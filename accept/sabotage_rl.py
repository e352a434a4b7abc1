"""A pytest plugin that breaks reinforcement learning, to see that the tests notice (VLAGENT_MUTANT=NAME).

NAME is one of `accept.mutants`, or `resumes`: a resumed run forgets its optimizer, and one process scales its loss
otherwise than several do.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from accept.breaking import put


def pytest_configure() -> None:
    """Break it, where the environment asks for that."""
    name = os.environ.get("VLAGENT_MUTANT")
    if name:
        from accept.mutants import MUTANTS

        {**MUTANTS, "resumes": resumes}[name]()


def resumes() -> None:
    """Faults in going on and in sharing a step."""
    from vlagent.train import checkpoint
    from vlagent.train.rl.minibatch import Minibatch

    read, scale = checkpoint.read_checkpoint, Minibatch.scale

    def forget(folder: Path, model: Any, optimizer: Any, *more: Any) -> Any:
        position = read(folder, model, optimizer, *more)
        optimizer.state.clear()
        return position

    put(checkpoint, read_checkpoint=forget)
    Minibatch.scale = lambda self, aggregation: 1.5 * scale(self, aggregation)  # type: ignore[method-assign]
