"""Is a right answer earned? It must stand in a result about what was searched for, follow from numbers there, or be
something that is read from a picture that was looked at closely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

from vlagent.curate.flaws import NUMBER, Finding, Step, golds_of, holds, padded, query_of, shows_detail
from vlagent.data.overlap import plain_key
from vlagent.search.noise.names import names_in
from vlagent.types import Observation, Sample, Trajectory

_RECORD = re.compile(
    r"\b(?:when|who|whom|whose|why|in\s+(?:which|what)\s+(?:year|city|country|state|town|month|decade)|what\s+year"
    r"|(?:how\s+(?:many|much|old|tall|long|far|high))\b.*\b(?:year|years|metres?|meters?|km|miles?|people|apart|cost)"
    r"|found(?:ed|er|ers|ing|ation)|establish\w*|owns?|owned|owner|parent\s+company|headquarter\w*|based\s+in"
    r"|born|died|birthplace|built|completed|opened|inaugurat\w*|capital|population|director|author|president|ceo"
    r"|won|winner|released?|premi\w+|invent\w*|architect|designer)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Questions about what is written down somewhere, and not on the thing itself."""
_VISIBLE = re.compile(
    r"\b(?:what|which)\s+(?:does|do|is|are|word|words|name|text|number|colou?r)\b.*"
    r"\b(?:say|says|read|written|printed|shown|displayed|wear\w*|colou?r)\b",
    re.IGNORECASE | re.DOTALL,
)


def lucky(sample: Sample, trajectory: Trajectory, *, allow_direct: bool = False) -> list[Finding]:
    """The finding on a right episode whose answer nothing supports; none on one that is supported.

    `allow_direct` accepts answers from the uncropped picture alone.
    """
    used = [turn for turn in trajectory.turns if turn.call is not None and _worked(turn.observation)]
    if not used and not trajectory.context:
        if allow_direct and not _RECORD.search(sample.question):
            return []
        return [_finding("it answers without having looked anything up")]
    golds = golds_of(sample)
    if not golds or any(is_stated(gold, trajectory) for gold in golds):
        return []
    if any(_follows(gold, trajectory) for gold in golds):
        return []
    looked = any(shows_detail(turn) for turn in trajectory.turns)
    if looked and is_visible(sample.question):
        return []
    return [_finding("no result states the answer, and none of the numbers in them gives it")]


def is_visible(question: str) -> bool:
    """Whether a question can be answered from pixels, as far as its words tell."""
    return bool(_VISIBLE.search(question)) or not _RECORD.search(question)


def _finding(why: str) -> Finding:
    return Finding(kind="lucky_guess", why=why)


def _worked(observation: Observation | None) -> bool:
    return observation is not None and observation.fault is None


def is_stated(value: str, trajectory: Trajectory) -> bool:
    """Whether some result states a value (plain words): for a text search, in a passage about what it asked for."""
    for seen in trajectory.context:
        if holds(padded(plain_key(seen.text)), value):
            return True
    return any(holds(words, value) for words in _evidence(trajectory))


def _evidence(trajectory: Trajectory) -> Iterator[str]:
    """Padded plain words of what each call brought, passages about something else left out."""
    for turn in trajectory.turns:
        if turn.call is None or turn.observation is None or turn.observation.fault is not None:
            continue
        query = query_of(turn.call)
        if query:
            yield padded(" ".join(about(query, turn.observation)))
        else:
            titles = [hit.source.title for hit in turn.observation.hits]
            yield padded(plain_key(" ".join([turn.observation.text, *titles])))


def about(query: str, observation: Observation) -> list[str]:
    """The passages of a search (plain words) that speak of what the query names; all where it names nothing."""
    blocks = [f"{hit.source.title} {hit.text}" for hit in observation.hits] or [observation.text]
    if observation.hits and "\nSummary:" in observation.text:
        blocks.append(observation.text.rpartition("\nSummary:")[2])
    plain = [plain_key(block) for block in blocks]
    names = [words for name in names_in(query) if (words := plain_key(name).split())]
    if not names:
        return plain
    return [block for block in plain if any(_speaks_of(block, words) for words in names)]


def _speaks_of(block: str, words: list[str]) -> bool:
    own = set(block.split())
    return sum(word in own for word in words) * 2 > len(words)


def _follows(gold: str, trajectory: Trajectory) -> bool:
    """Whether two numbers of the evidence give the answer: their difference, their sum."""
    wanted = _number(gold)
    if wanted is None:
        return False
    numbers = {value for words in _evidence(trajectory) for value in numbers_in(words)}
    return any(wanted in (abs(a - b), a + b) for a, b in combinations(sorted(numbers), 2))


def numbers_in(text: str) -> set[float]:
    """The numbers of a text."""
    return {value for found in NUMBER.findall(text) if (value := _number(found)) is not None}


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def computed(value: float, step: Step) -> bool:
    """Whether two numbers that were seen before a step give a value."""
    seen = sorted(numbers_in(step.seen))
    return any(value in (abs(a - b), a + b) for a, b in combinations(seen, 2))
