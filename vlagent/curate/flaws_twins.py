"""Episodes that are the same but for details, and questions or pictures that the test data hold too.

Pictures are compared as `vlagent data check` compares them: by their bytes, and by what they show where a copy was
encoded anew. Questions by their content words, so that other wording is the same question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from vlagent.curate.flaws import Finding, text_of
from vlagent.data.overlap import Pictures, Print, fingerprint, plain_key
from vlagent.errors import ServiceError
from vlagent.rewards.match import match
from vlagent.search.words import FUNCTION_WORDS, index_words, stems
from vlagent.types import ImageRef, Sample, Trajectory

SAME_QUESTION = 0.34
"""Jaccard of content words from which two questions about one picture, with one answer, are the same."""
SAME_EPISODE = 0.9
"""Jaccard of word triples of whole episodes."""
_POLITE_WORDS = "please kindly tell name give exactly precisely say photo picture image shown"
_POLITE = frozenset(_POLITE_WORDS.split())


@dataclass
class Twins:
    """Remembers episodes and test questions; says what a new episode repeats."""

    pictures: Pictures = field(default_factory=Pictures)
    test_pictures: Pictures = field(default_factory=Pictures)
    _prints: dict[str, Print | None] = field(default_factory=dict)
    _samples: dict[str, Sample] = field(default_factory=dict)
    _tests: dict[str, Sample] = field(default_factory=dict)
    _test_words: dict[frozenset[str], list[str]] = field(default_factory=dict)
    _episodes: dict[frozenset[str], list[tuple[str, frozenset[str]]]] = field(default_factory=dict)

    def forbid(self, samples: Iterable[Sample]) -> None:
        """Add the test data."""
        for sample in samples:
            self._tests[sample.id] = sample
            self._test_words.setdefault(content_of(sample.question), []).append(sample.id)
            self._add_pictures(self.test_pictures, sample)

    def overlap(self, sample: Sample) -> list[Finding]:
        """Pictures, and questions with their answers, that the test data hold."""
        shown = self._same_look(self.test_pictures, sample)
        if shown:
            return [Finding(kind="overlap", why=f"its picture is that of the test question {shown[0]}")]
        # Without a name in it, a question means another thing with each picture.
        alike = self._test_words.get(content_of(sample.question), ()) if names_a_thing(sample.question) else ()
        for name in alike:
            if _same_answers(sample, self._tests[name]):
                return [
                    Finding(kind="overlap", why=f"it asks, with the same answer, what the test question {name} asks")
                ]
        return []

    def duplicate(self, sample: Sample, trajectory: Trajectory) -> list[Finding]:
        """The kept episode that this one repeats; a new one is remembered by `add`."""
        for name in self._same_look(self.pictures, sample):
            other = self._samples[name]
            if _same_answers(sample, other) and _alike(content_of(sample.question), content_of(other.question)):
                return [Finding(kind="near_duplicate", why=f"it asks the same about the same picture as {name}")]
        if sample.id in self._samples:
            return [Finding(kind="near_duplicate", why="its question has an episode already")]
        own = _triples(sample, trajectory)
        for name, other_triples in self._episodes.get(content_of(sample.question), ()):
            if _jaccard(own, other_triples) >= SAME_EPISODE and _same_answers(sample, self._samples[name]):
                return [Finding(kind="near_duplicate", why=f"it reads like {name} from beginning to end")]
        return []

    def add(self, sample: Sample, trajectory: Trajectory) -> None:
        """Remember an episode that is kept."""
        self._samples[sample.id] = sample
        self._add_pictures(self.pictures, sample)
        if any(turn.observation and turn.observation.hits for turn in trajectory.turns):
            own = self._episodes.setdefault(content_of(sample.question), [])
            own.append((sample.id, _triples(sample, trajectory)))

    def _add_pictures(self, pictures: Pictures, sample: Sample) -> None:
        for ref in sample.images:
            known = self._print(ref)
            if known is not None:
                pictures.add(sample.id, ref, known)

    def _same_look(self, pictures: Pictures, sample: Sample) -> list[str]:
        known = [(ref, self._print(ref)) for ref in sample.images]
        found = [name for ref, mine in known if mine is not None for name in pictures.same_look(ref, mine)]
        return list(dict.fromkeys(found))

    def _print(self, ref: ImageRef) -> Print | None:
        """None where the picture cannot be read any more: it is like no other."""
        if ref.path not in self._prints:
            try:
                self._prints[ref.path] = fingerprint(ref)
            except (ServiceError, OSError):
                self._prints[ref.path] = None
        return self._prints[ref.path]


def content_of(question: str) -> frozenset[str]:
    """The stems of the words that make a question this question."""
    words = [word for word in index_words(question) if word not in FUNCTION_WORDS and word not in _POLITE]
    return frozenset(stems(words or index_words(question)))


def names_a_thing(question: str) -> bool:
    """Whether a question holds a name or a number, beside the capital that it begins with."""
    return bool(re.search(r"(?<!^)(?<![.?!:\"“] )\b(?:[A-Z][\w'’-]+|\d{2,})", question.strip()))


def _alike(a: frozenset[str], b: frozenset[str]) -> bool:
    return _jaccard(a, b) >= SAME_QUESTION


def _jaccard(a: frozenset[str], b: frozenset[str]) -> float:
    return len(a & b) / len(a | b) if a | b else 1.0


def _same_answers(a: Sample, b: Sample) -> bool:
    return any(match(answer, b.answers).matched for answer in a.answers)


def _triples(sample: Sample, trajectory: Trajectory) -> frozenset[str]:
    """Word triples of question, thoughts, calls and results."""
    parts = [sample.question]
    for turn in trajectory.turns:
        parts += [turn.think or "", str(turn.call.arguments) if turn.call else "", turn.answer or ""]
        parts.append(text_of(turn.observation) if turn.observation else "")
    words = plain_key(" ".join(parts)).split()
    return frozenset(" ".join(words[at : at + 3]) for at in range(max(1, len(words) - 2)))
