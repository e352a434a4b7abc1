"""Noise in what was found, and names that are easily taken for another: rules without a model, each a switch."""

from __future__ import annotations

from typing import Protocol

from vlagent.search.noise.contradiction import contradiction
from vlagent.search.noise.entities import ordered
from vlagent.search.noise.grounding import ungrounded
from vlagent.types import Hit

NAMESAKE = "about a namesake, it seems"


class Switches(Protocol):
    """Which checks are made (`live_config.NoiseConfig`)."""

    @property
    def contradictions(self) -> bool: ...
    @property
    def grounding(self) -> bool: ...
    @property
    def entities(self) -> bool: ...


class NoiseChecks:
    """The `Checks` of a run."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches

    def order(self, query: str, hits: list[Hit]) -> list[Hit]:
        """Flagged, those about a namesake last. Hits about a namesake contradict nothing."""
        if self._switches.entities:
            hits = ordered(query, hits, NAMESAKE)
        return _with_contradictions(query, hits) if self._switches.contradictions else hits

    def note(self, query: str, seen: list[Hit]) -> str:
        """One line on a query that names none of what was seen so far, or nothing."""
        return ungrounded(query, seen) if self._switches.grounding else ""


def _with_contradictions(query: str, hits: list[Hit]) -> list[Hit]:
    about = [hit if NAMESAKE not in hit.flags else hit.model_copy(update={"text": ""}) for hit in hits]
    found = contradiction(query, about)
    if found is None:
        return hits
    flagged = list(hits)
    for value, numbers in found.values.items():
        others = ", ".join(other for other in found.values if other != value)
        for number in numbers:
            flag = f"other results contradict it: {found.attribute} {value} here, {others} there"
            flagged[number] = flagged[number].model_copy(update={"flags": (*flagged[number].flags, flag)})
    return flagged
