"""What may be wrong with an episode that is to be learnt from, and what the episode had shown at each turn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from vlagent.data.overlap import plain_key
from vlagent.types import Call, Observation, Record, Sample, Trajectory, Turn

Kind = Literal[
    "wrong_answer",
    "service_failed",
    "wrong_format",
    "lucky_guess",
    "leaked_answer",
    "incoherent_step",
    "ungrounded_query",
    "near_duplicate",
    "overlap",
    "reviewer",
]
KINDS: dict[Kind, str] = {
    "wrong_answer": "the answer is not right, or there is none",
    "service_failed": "a tool's service failed on the way",
    "wrong_format": "a turn is not one thought and one valid action",
    "lucky_guess": "right, but nothing that was seen supports it",
    "leaked_answer": "the answer shows before a result states it",
    "incoherent_step": "a step does not follow from its thought or from what was seen",
    "ungrounded_query": "a search for something that nothing so far has named",
    "near_duplicate": "another kept episode is the same but for details",
    "overlap": "its question or picture is in the test data",
    "reviewer": "a second model finds it implausible",
}
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")


class Finding(Record):
    """One thing that is wrong."""

    kind: Kind
    turn: int | None = None
    """From 1; None is the whole episode."""
    why: str


@dataclass(frozen=True)
class Step:
    """A turn, and what the model had been shown in words when it wrote it."""

    number: int
    turn: Turn
    seen: str
    """Plain text (`plain_key`) of the question, its options and every result so far, with a space at both ends."""
    results: str
    """Of the results alone."""
    looked: bool
    """Whether a crop had been shown: from then on a name may have been read from pixels."""
    last: bool

    @property
    def thought(self) -> str:
        return self.turn.think or ""

    @property
    def query(self) -> str:
        """Of a text search; else empty."""
        return query_of(self.turn.call)


def query_of(call: Call | None) -> str:
    """What a text search asks for; empty for any other call."""
    if call is None or call.name != "text_search":
        return ""
    return str(call.arguments.get("query", ""))


def steps_of(sample: Sample, trajectory: Trajectory) -> Iterator[Step]:
    """Each turn with what came before it."""
    asked = " ".join([sample.question, *sample.choices.values(), *(text_of(seen) for seen in trajectory.context)])
    seen, results, looked = [plain_key(asked)], [""], False
    for number, turn in enumerate(trajectory.turns, 1):
        last = number == len(trajectory.turns)
        yield Step(number, turn, padded(" ".join(seen)), padded(" ".join(results)), looked, last)
        if turn.observation is not None and turn.observation.fault is None:
            words = plain_key(text_of(turn.observation))
            seen.append(words)
            results.append(words)
            looked = looked or shows_detail(turn)


def shows_detail(turn: Turn) -> bool:
    """Whether a turn brought a picture in which small things can be read: not the thumbnails of a search."""
    shown = turn.observation is not None and turn.observation.fault is None and bool(turn.observation.images)
    return shown and turn.call is not None and turn.call.name != "image_search"


def text_of(observation: Observation) -> str:
    """All words of a result: as it was shown, and the titles and texts of its hits."""
    hits = [f"{hit.source.title} {hit.text}" for hit in observation.hits]
    return "\n".join([observation.text, *hits])


def padded(words: str) -> str:
    """Plain words with a space at both ends, in which `holds` finds whole words only."""
    return f" {words} "


def holds(words: str, value: str) -> bool:
    """Whether padded plain words hold a value (plain) as whole words."""
    return bool(value) and f" {value} " in words


def golds_of(sample: Sample) -> list[str]:
    """The accepted answers in plain words, those that the question itself names left out."""
    asked = padded(plain_key(" ".join([sample.question, *sample.choices.values()])))
    keys = dict.fromkeys(plain_key(answer) for answer in sample.answers)
    return [key for key in keys if key and not holds(asked, key)]


def said_in(turn: Turn) -> str:
    """What a turn says in words, plain and padded: its thought, and the strings of its arguments."""
    strings = [value for value in (turn.call.arguments.values() if turn.call else ()) if isinstance(value, str)]
    return padded(plain_key(" ".join([turn.think or "", *strings])))


def call_key(call: Call) -> str:
    """A call as text, to compare calls by."""
    return f"{call.name} {json.dumps(call.arguments, sort_keys=True)}"
