"""Does each step follow: its call from its thought, its claims from what was shown, its query from a name that is
known, its answer from its conclusion?

The rules read words; what a crop shows they cannot see. A name may come from a crop if the thought says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vlagent.curate.flaws import NUMBER, Finding, Step, call_key, holds, padded, said_in, steps_of
from vlagent.curate.flaws_support import computed, numbers_in
from vlagent.data.overlap import plain_key
from vlagent.search.noise.grounding import ungrounded
from vlagent.search.noise.names import names_in
from vlagent.search.words import FUNCTION_WORDS, index_words, stems
from vlagent.types import Hit, Sample, Trajectory

_INTENTS = {
    "image_crop": re.compile(
        r"\b(?:zoom\w*|crop\w*|magnif\w*|enlarg\w*|clos(?:er|e-up|e up)|nearer|inspect\w*"
        r"|cut(?:ting)? out|blow\w*[- ]up|detail\w*|region"
        r"|look at the \w+ (?:sign|label|text|plate|corner|part)|(?:too )?small|legible|unreadable"
        r"|search (?:the|this) (?:image|picture|photo\w*) for|full resolution)\b",
        re.IGNORECASE,
    ),
    "image_search": re.compile(
        r"\b(?:reverse|visual(?:ly)?|image|picture|photo\w*)[- ](?:search\w*|look\w*|match\w*|similar)"
        r"|\bsearch\w* (?:by|with|using|for|on)? ?(?:the|this|its) (?:image|picture|photo\w*|look)"
        r"|\blook\w* up (?:the|this) (?:image|picture|photo\w*|scene|place|building)|\bfind the place\b"
        r"|\b(?:recogni[sz]e|identify|which|what|name (?:of )?)\b.{0,30}\b(?:place|building|landmark|location|scene)\b"
        r"|\b(?:pages|sites) (?:that|which) show\b|\bsame (?:place|building|picture|image|scene)\b",
        re.IGNORECASE,
    ),
    "text_search": re.compile(
        r"\b(?:search\w*|look\w* (?:it |this |that |them )?up|quer(?:y|ies)|google|web|articles?|encyclop\w+|documents?"
        r"|read about|written|records?|archives?|find out|passages?|sources?)\b",
        re.IGNORECASE,
    ),
}
"""Words by which a thought tells which tool it wants."""
_VALUE = r"([\w][\w.,'’-]*(?:\s+[A-Z][\w'’-]*)*)"
_CONCLUDES = re.compile(
    r"\b(?:answer|conclusion|result|it|sign|label|difference|value|year|name|city|owner)\s*"
    r"(?:is|was|must be|should be|says|reads|equals|comes to|=|:)\s+(?:the\s+)?[\"'“‘]?" + _VALUE,
)
_ASKED_WORDS = """founded founder founding established opened opening opens built based headquarters city country
located stands owned owner owns company brand group year date history population height where when who capital born
died director designer architect author price release winner official information about facts location wiki wikipedia
inauguration completed construction origin parent building sign place photo picture image shop store object thing red
green blue yellow purple orange white black grey gray pink brown left right top bottom middle first second third big
small large"""
_PLAIN_QUERY_WORDS = frozenset(stems(_ASKED_WORDS.split()))
"""What is asked of a thing, in queries; these name nothing."""


def incoherent(sample: Sample, trajectory: Trajectory) -> list[Finding]:
    """Steps that do not follow."""
    found, called = [], dict[str, int]()
    for step in steps_of(sample, trajectory):
        for why in _problems(step, trajectory, called):
            found.append(Finding(kind="incoherent_step", turn=step.number, why=why))
            break
        if step.turn.call is not None:
            called.setdefault(call_key(step.turn.call), step.number)
    return found


def _problems(step: Step, trajectory: Trajectory, called: dict[str, int]) -> Iterator[str]:
    call, seen = step.turn.call, step.turn.observation
    if call is not None:
        if call_key(call) in called:
            yield f"the very call of turn {called[call_key(call)]} again"
        if seen is not None and seen.fault is not None:
            yield f"the call fails: {seen.text[:120]}"
        if why := _wants_another_tool(step):
            yield why
    if why := _misreports(step, trajectory):
        yield why
    if step.last and step.turn.answer is not None and (why := _concludes_otherwise(step)):
        yield why


def _wants_another_tool(step: Step) -> str:
    """Where a thought names tools, and not the one that is called."""
    call = step.turn.call
    assert call is not None
    wanted = [name for name, words in _INTENTS.items() if words.search(step.thought)]
    if not wanted or call.name in wanted or call.name not in _INTENTS:
        return ""
    if step.query and _shared(step.query, step.thought):
        return ""
    return f"the thought wants {' or '.join(wanted)}, the call is {call.name}"


def _shared(query: str, thought: str) -> bool:
    said = set(index_words(thought))
    return any(word in said for word in content_words(query))


def content_words(query: str) -> list[str]:
    """The words of a query that name something."""
    words = [word for word in index_words(query) if word not in FUNCTION_WORDS and len(word) > 1]
    return [word for word in words if not set(stems([word])) & _PLAIN_QUERY_WORDS]


def _misreports(step: Step, trajectory: Trajectory) -> str:
    """Right after a search, a thought that reports numbers or names of which no result knows anything."""
    before = trajectory.turns[step.number - 2] if step.number > 1 else None
    if before is None or before.call is None or before.observation is None or before.observation.fault is not None:
        return ""
    if before.call.name == "text_search":
        said = [text for text in NUMBER.findall(step.thought) if len(text) > 1]
        # The answer itself is left to `flaws_support` and `flaws_leak`.
        strange = [text for text in said if text != trajectory.answer and not _is_known_number(text, step)]
        if strange:
            return f"{strange[0]} stands in no result"
    if before.call.name in ("image_search", "text_search") and not step.looked:
        strange = [name for name in _names(step.thought) if not _is_known_name(name, step)]
        if strange:
            return f"{strange[0]!r} stands in no result"
    return ""


def _is_known_number(text: str, step: Step) -> bool:
    if holds(step.seen, plain_key(text)):
        return True
    return any(computed(value, step) or value in numbers_in(step.seen) for value in numbers_in(text))


def _names(thought: str) -> list[str]:
    """Names in a thought; the first word of a sentence is none by its capital alone."""
    found = re.findall(r"(?<![.!?:;\"“] )(?<!^)\b[A-Z][\w'’-]+(?:\s+[A-Z][\w'’-]+)*", thought)
    return [name for name in found if len(name) > len("I'll")]


def _is_known_name(name: str, step: Step) -> bool:
    words = [word for word in plain_key(name).split() if word not in FUNCTION_WORDS]
    return any(holds(step.seen, word) for word in words) or not words


def _concludes_otherwise(step: Step) -> str:
    """Where the last thought states a value that is not the answer."""
    answer = plain_key(step.turn.answer or "")
    thought = padded(plain_key(step.thought))
    if holds(thought, answer) or not answer:
        return ""
    stated = [found.rstrip(".,") for found in _CONCLUDES.findall(step.thought)]
    named = [value for value in stated if value[:1].isupper() or value[:1].isdigit()]
    if named and not any(plain_key(value) in answer for value in named):
        return f"the thought concludes {named[-1]!r}, the answer is {step.turn.answer!r}"
    numbers = numbers_in(step.thought)
    wanted = numbers_in(step.turn.answer or "")
    if wanted and numbers and not wanted & (numbers | {abs(a - b) for a in numbers for b in numbers}):
        return f"the thought speaks of {sorted(numbers)}, the answer is {step.turn.answer!r}"
    return ""


def ungrounded_queries(sample: Sample, trajectory: Trajectory) -> list[Finding]:
    """Text searches for what nothing so far has named."""
    found, said = [], ""
    hits = list[Hit]()
    for step in steps_of(sample, trajectory):
        if step.looked or step.turn.call is None:
            said += said_in(step.turn.model_copy(update={"call": None}))
        if step.query and (why := _why_ungrounded(step, said, ungrounded(step.query, hits))):
            found.append(Finding(kind="ungrounded_query", turn=step.number, why=why))
        if step.turn.observation is not None:
            hits += step.turn.observation.hits
    return found


def _why_ungrounded(step: Step, said: str, pointing: str) -> str:
    """`said` is what thoughts since the first crop have said."""
    words = content_words(step.query)
    if not words:
        return "it names nothing that could be searched for"
    unknown = [word for word in words if not holds(step.seen, word)]
    names = {word for name in names_in(step.query) for word in index_words(name)}
    strange = [word for word in unknown if word in names] if _has_capitals(step.query) else unknown
    if not strange:
        return pointing if pointing and not _names_something(words, step) else ""
    if step.looked and all(holds(said, word) for word in strange):
        return ""
    if not _has_capitals(step.query) and len(strange) < len(words):
        return ""
    where = "no thought says that it was read from the picture" if step.looked else "nothing so far names it"
    return f"{' '.join(strange)!r} in {step.query!r}: {where}"


def _names_something(words: list[str], step: Step) -> bool:
    return any(holds(step.seen, word) for word in words)


def _has_capitals(query: str) -> bool:
    return any(char.isupper() for char in query[1:]) or (query[:1].isupper() and " " not in query.strip())
