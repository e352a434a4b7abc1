"""What other packages bring by entry points: tools, advantages, parts of the reward."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from vlagent.errors import UserError


def plugins(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group, by name."""
    return {point.name: point for point in entry_points(group=group)}


def loaded(what: str, point: EntryPoint) -> Any:
    """The object of an entry point. Raises `UserError`, which begins with `what`, where it cannot be imported."""
    try:
        return point.load()
    except (ImportError, AttributeError) as error:
        raise UserError(f"{what} ({point.value}) cannot be loaded: {error}") from error
