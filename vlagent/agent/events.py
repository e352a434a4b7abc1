"""What can be watched while an episode runs (live views, logs, tests)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vlagent.types import Trajectory, Turn


@dataclass(frozen=True)
class Event:
    """Something that happened in one episode."""

    sample_id: str
    rollout: int
    index: int
    """Turns that the model has written before this one, from 0; of `Ended`, all of them."""


@dataclass(frozen=True)
class Started(Event):
    """The episode began."""


@dataclass(frozen=True)
class Wrote(Event):
    """The model wrote a turn; its action has not run yet."""

    turn: Turn


@dataclass(frozen=True)
class Observed(Event):
    """The action of a turn was answered; `turn.observation` is set."""

    turn: Turn


@dataclass(frozen=True)
class Ended(Event):
    """The episode is over. Sent exactly once after `Started`, on cancellation too; only a bug leaves it out."""

    trajectory: Trajectory


Watch = Callable[[Event], None]
"""Called at once, in order, from the event loop: it must return quickly."""
