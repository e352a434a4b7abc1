"""Does an episode know the answer before anything that it was shown states it?

A hint that was given to the model, or a gold answer that found its way into the data, shows in two ways: the words
speak of it, or the value stands in a thought or a query too early. A value in the last turn is not too early: whether
it is supported there is `flaws_support`'s question.
"""

from __future__ import annotations

import re

from vlagent.curate.flaws import Finding, Step, golds_of, holds, said_in, steps_of
from vlagent.types import Sample, Trajectory

_SPEAKS = re.compile(
    r"\b(?:the|this|that|my|a|given|your)\s+(?:\w+\s+)?hints?\b(?!\s+(?:at|to)\b)|\bhinted\b|\bground[- ]?truth\b"
    r"|\b(?:accepted|reference|gold(?:en)?|official|provided|supplied|labell?ed)\s+answer\b"
    r"|\banswer\s+(?:key|sheet)\b|\banswer\s+(?:that\s+)?(?:i\s+)?(?:was|were|have\s+been|had\s+been)\s+(?:already\s+)?"
    r"(?:given|told|provided|supplied|known)\b|\b(?:i\s+was|been)\s+(?:already\s+)?told\b"
    r"|\bwithout\s+(?:revealing|letting\s+on)\b|\bpretend(?:ing)?\b|\bnote\s+(?:above|in\s+the\s+(?:prompt|question))\b",
    re.IGNORECASE,
)
_SPEAKS_EARLY = re.compile(
    r"\b(?:expected|known|correct|target|right)\s+answer\s+(?:is|must|should|was)\b"
    r"|\balready\s+(?:know|have)\s+(?:that\s+)?(?:the\s+)?(?:answer|result|solution)\b",
    re.IGNORECASE,
)
"""Said in the last turn, this is only how one concludes."""
_AFTER = frozenset(("here", "has", "to", "would", "should", "comes", "is", "as", "will"))
"""A digit before one of these counts nothing."""


def leaks(sample: Sample, trajectory: Trajectory, *, strict: bool = False) -> list[Finding]:
    """Turns that know too much. `strict` is for hinted models: no name counts as read from the uncropped picture."""
    found = []
    steps = list(steps_of(sample, trajectory))
    for step in steps:
        spoken = _SPEAKS.search(step.thought) or (not step.last and _SPEAKS_EARLY.search(step.thought))
        if spoken:
            found.append(Finding(kind="leaked_answer", turn=step.number, why=f"it speaks of one: {spoken.group()!r}"))
            continue
        for gold in golds_of(sample):
            if not step.last and _too_early(gold, step, steps, strict):
                why = f"{gold!r} stands in it before any result states it"
                found.append(Finding(kind="leaked_answer", turn=step.number, why=why))
                break
        if not step.last and sample.choices and _states_option(sample, step):
            found.append(Finding(kind="leaked_answer", turn=step.number, why="it states the option before it looks"))
    return found


def _too_early(gold: str, step: Step, steps: list[Step], strict: bool) -> bool:
    if not _is_said(step, gold) or holds(step.seen, gold):
        return False
    if not step.looked:
        return strict or any(char.isdigit() for char in gold) or not _names_what_it_sees(gold, step)
    later = steps[step.number - 1 :]
    if any(char.isdigit() for char in gold):
        return any(each.turn.call is not None and each.turn.call.name == "text_search" for each in later)
    # A name that was read from a crop is then looked up under that name.
    looked_up = any(holds(said_in(each.turn), gold) and each.query for each in later)
    return not looked_up and holds(steps[-1].results, gold)


def _names_what_it_sees(gold: str, step: Step) -> bool:
    """A model may know a landmark or a face at sight; then it looks it up by that name."""
    return bool(step.query) and holds(said_in(step.turn), gold)


def _is_said(step: Step, gold: str) -> bool:
    if len(gold) > 1:
        return holds(said_in(step.turn), gold)
    # A single digit is everywhere by chance, mostly before what it counts.
    found = re.finditer(rf"(?<![\w.,]){re.escape(gold)}(?![.,]?\d)(\W*)(\w*)", step.thought)
    return any(after[2] == "" or re.search(r"[.,;:!?)]", after[1]) or after[2] in _AFTER for after in found)


def _states_option(sample: Sample, step: Step) -> bool:
    letters = {answer.strip().upper() for answer in sample.answers} & set(sample.choices)
    if step.looked or not letters:
        return False
    pattern = rf"\b(?:answer|option|choice)\s*(?:is|must be|will be|:)?\s*\(?(?:{'|'.join(letters)})\b"
    return bool(re.search(pattern, step.thought))
