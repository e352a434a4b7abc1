"""The words of an episode played right, as the oracle says them: the thought before each call, and the last one."""

from __future__ import annotations

from vlagent.toy.facts import Facts
from vlagent.toy.questions import Question
from vlagent.types import Call


def thought(call: Call, question: Question) -> str:
    """What is thought before a call."""
    if call.name == "image_crop":
        return f"zoom on the {question.colour} sign"
    if call.name == "image_search":
        return "find the place"
    name = str(call.arguments["query"]).rsplit(" ", 1)[0]
    return f"search {name}"


def last_thought(question: Question, facts: Facts) -> str:
    """What is thought before the answer."""
    if question.kind == "read":
        return f"it says {question.answer}"
    if question.kind == "both":
        assert question.brand is not None
        assert question.place is not None
        years = f"{facts.year(question.brand)} and {facts.year(question.place)}"
        return f"the years are {years}, the answer is {question.answer}"
    return f"the answer is {question.answer}"
