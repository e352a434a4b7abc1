"""A pytest plugin that breaks evaluation, plug-ins and the making of data, to see that the tests notice.

VLAGENT_BROKEN names what: `faults` (a failed episode is a wrong answer), `plug_ins` (every answer is right), `export`
(the last message is lost), `resume` (no paid answer is kept), `page` (nobody's question has a problem, and no reviewer
agrees with another).
"""

from __future__ import annotations

import os
from typing import Any

from accept.breaking import put


def pytest_configure() -> None:
    """Break it, where the environment asks for that."""
    name = os.environ.get("VLAGENT_BROKEN")
    if name:
        known = {"faults": faults, "plug_ins": plug_ins, "export": export, "resume": resume, "page": page}
        known.get(name, _nothing)()


def faults() -> None:
    """A failure of the world counts against the policy."""
    from vlagent.bench import evaluate
    from vlagent.types import Outcome

    scored_row = evaluate.scored_row

    def blamed(*given: Any) -> Any:
        row = scored_row(*given)
        lost = row.outcome in (Outcome.FAILED, Outcome.UNSCORED)
        return row.model_copy(update={"outcome": Outcome.WRONG}) if lost else row

    put(evaluate, scored_row=blamed)


def plug_ins() -> None:
    """Whatever another tool's model says is right."""
    from vlagent.bench import evaluate
    from vlagent.rewards import rubric

    outcome_of = rubric.outcome_of

    async def kind(sample: Any, trajectory: Any, judge: Any = None) -> Any:
        flattered = trajectory.model_copy(update={"answer": sample.answers[0]})
        return await outcome_of(sample, flattered, judge)

    put(rubric, outcome_of=kind)
    put(evaluate, outcome_of=kind)


def export() -> None:
    """A conversation loses its end on the way out."""
    from dataclasses import replace

    from vlagent.curate import export as module

    write_forms = vars(module)["write_forms"]

    def shorter(out: Any, talks: Any, forms: Any, name: str) -> int:
        return int(write_forms(out, [replace(talk, messages=talk.messages[:-1]) for talk in talks], forms, name))

    put(module, write_forms=shorter)


def resume() -> None:
    """Paid answers are forgotten."""
    from vlagent.curate.budget import Paid

    Paid._keep = _nothing  # type: ignore[assignment, method-assign]


def page() -> None:
    """Anything may be published by anybody."""
    from vlagent.curate.bench import book

    put(book, problems=lambda *_: [], standing=lambda *_: "agreed")


def _nothing(*_: Any) -> None:
    return None
