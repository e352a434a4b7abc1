"""Marking open answers without a judge: a small local matcher behind the rules of `match`.

It accepts what a person would call the same answer in more words: the truth inside a sentence, a middle name, a more
specific form, a doubled letter. It knows nothing of the world, so it misses paraphrases, which is better than a false
yes. Its agreement with a judge is measured like that of any two judges (`bench.agreement`, docs/guides/judges.md).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vlagent.rewards.match import match
from vlagent.rewards.numbers import read_number
from vlagent.rewards.opinions import Opinion, OpinionBook, Verdict
from vlagent.rewards.plain import CJK, clean, key
from vlagent.types import Sample, Usage

NAME = "matcher"
VERSION = 2
"""Goes into the key of its opinions: a changed rule is asked again."""
MAX_WORDS = 60
"""A longer answer is an essay; only a judge can say what it claims."""
DOUBT = re.compile(
    r"\b(?:not|no longer|never|neither|nor|cannot|can't|couldn't|isn't|wasn't|aren't|weren't|doesn't|don't|unknown|"
    r"unsure|uncertain|unclear|either|maybe|perhaps|possibly|probably|might|could be|or|instead of|rather than|"
    r"formerly|except|unlike|before|after|between|almost|nearly|about|around|former|ex|vs|versus|but|none|nothing|"
    r"without|doubt\w*|hardly|barely|scarcely|unlikely|den(?:y|ies|ied)|wrong(?:ly)?|incorrect(?:ly)?|mistaken(?:ly)?|"
    r"fake|pretend\w*|suppos\w+|alleg\w+|actually|far from)\b|[不没非或除]|ではな|でない",
    re.IGNORECASE,
)
"""Words by which an answer takes back, hedges, moves or doubles what it names."""
LEAD = re.compile(
    r"\b(?:is|was|are|were|it's|he's|she's|reads|says|shows|opened|won|called|named)\b(?:(?:\s+\w+)?\s+(?:in|on|by|at)\b)?|[:=]",
    re.IGNORECASE,
)
"""After these an answer states what it names (it is ..., was founded in ..., the sign reads ...)."""
TAIL = re.compile(r"\s*,\s|\s+(?:by|in|at|on|of|with|from|which|who|that|for)\s", re.IGNORECASE)
"""Where a detail begins that may follow what is named."""
AWAY = frozenset(
    [
        *("of", "to", "next", "near", "by", "from", "with", "at", "for", "behind", "beside", "over", "under"),
        *("is", "was", "are", "were", "has", "had", "and", "like", "than"),
    ]
)
"""Words that make of a name a part of something else."""
INITIAL = re.compile(r"[^\W\d_]\.?")


@dataclass
class Matcher:
    """A `Marker` that asks nobody."""

    log: Path | None = None
    """Opinions of a run, so that it can be held against a judge."""
    name: str = NAME
    usage: Usage = field(default_factory=Usage)
    """None ever."""
    _book: OpinionBook = field(init=False)

    def __post_init__(self) -> None:
        self._book = OpinionBook(self.log)

    async def verdict(self, sample: Sample, answer: str) -> Verdict:
        """Yes or no, never None."""
        why = accepts(answer, sample.answers, sample.question)
        verdict = Verdict(right=bool(why), why=f"matcher: {why or 'no accepted answer is said'}")
        stated = {"judge": self.name, "sample_id": sample.id, "answer": answer}
        opinion = Opinion(key=_key(sample, answer), verdict=verdict, attempts=1, **stated)
        if self._book.find(opinion.key) is None:
            self._book.add(opinion)
        return verdict


def _key(sample: Sample, answer: str) -> str:
    parts = [NAME, VERSION, sample.question, *sample.answers, answer]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def accepts(answer: str, truths: tuple[str, ...] | list[str], question: str = "") -> str:
    """Why the answer says one of the truths: `rule ...`, `part`, `sentence`, `name`, `spelling`; '' where it does not.

    `question` counts for one thing only: numbers that it holds may be repeated in the answer.
    """
    ruled = match(answer, truths)
    if ruled.matched:
        return f"rule {ruled.rule}"
    for truth in truths:
        for form in _forms(truth):
            why = _why(answer, form, question)
            if why:
                return why
    return ""


def _forms(truth: str) -> Iterator[str]:
    """The truth, and what stands in or before its brackets (NASA (National Aeronautics ...))."""
    yield truth
    found = re.fullmatch(r"\s*([^()]+?)\s*\(([^()]+)\)\s*", truth)
    if found:
        yield found[1]
        if len(found[2]) > 1 and not found[2].strip().isdigit():
            yield found[2]


def _why(answer: str, truth: str, question: str) -> str:
    said, wanted = clean(answer), clean(truth)
    if not said or not wanted or len(said.split()) > MAX_WORDS:
        return ""
    doubts = {found[0].lower() for found in DOUBT.finditer(said)} - {f[0].lower() for f in DOUBT.finditer(wanted)}
    if doubts or _is_yes_or_no(wanted):
        return "part" if _is_yes_or_no(wanted) and _says_only(wanted, said) and not doubts else ""
    if read_number(wanted) is not None or wanted[0].isdigit():
        return _number_in(said, wanted, question)
    if not _numbers(wanted) >= _numbers(said) - _numbers(question):
        # A number more than the truth has may be a detail or a contradiction: only a judge can tell.
        return _sentence(said, wanted, question)
    found = (_words(part, wanted) for part in _statements(said))
    return _sentence(said, wanted, question) or next((why for why in found if why), "")


def _is_yes_or_no(wanted: str) -> bool:
    return key(wanted) in ("yes", "no")


def _says_only(wanted: str, said: str) -> bool:
    """It begins with that yes or no, and the other one does not follow."""
    words = key(said).split()
    return words[:1] == [key(wanted)] and not {"yes", "no"}.difference([key(wanted)]).intersection(words)


def _number_in(said: str, wanted: str, question: str) -> str:
    """The one amount that an answer holds is the truth's; numbers of the question may be repeated."""
    others = _numbers(said) - _numbers(question)
    return _sentence(said, wanted, question) if len(others) <= len(_numbers(wanted)) else ""


def _numbers(text: str) -> set[str]:
    return {found.replace(",", "") for found in re.findall(r"\d[\d.,]*\d|\d", text)}


def _sentence(said: str, wanted: str, question: str) -> str:
    """Something that the answer states as a whole matches by a rule: what follows its verb, or stands bold."""
    known = set(key(question).split())
    for part in _parts(said):
        if match(part, [wanted]).matched or match(_without_tail(part, known), [wanted]).matched:
            return "sentence"
    return ""


def _without_tail(part: str, known: set[str]) -> str:
    """What is named, without words that the question holds (12 windows)."""
    words = part.split()
    while len(words) > 1 and key(words[-1]) in known:
        words.pop()
    return " ".join(words)


def _parts(said: str) -> Iterator[str]:
    plain = re.sub(r"\([^()]*\)", " ", said)
    yield plain
    yield from re.findall(r"\*\*(.+?)\*\*", said)
    yield from re.findall(r"\(([^()]{2,})\)", said)
    for stated in _statements(plain):
        yield stated
        yield TAIL.split(stated, maxsplit=1)[0]


def _statements(text: str) -> Iterator[str]:
    """What an answer states: all that follows a verb of its one or two sentences, or the first sentence."""
    clauses = re.split(r"(?<=[^\W\d]{2})[.;!](?:\s+|$)|\n", text)
    for clause in clauses if len(clauses) <= 2 else clauses[:1]:
        starts = [found.end() for found in LEAD.finditer(clause)] or [0]
        yield from (clause[start:].strip() for start in starts)


def _words(said: str, wanted: str) -> str:
    if re.search(f"[{CJK}]", wanted):
        return "part" if re.search(f"[{CJK}]{{2,}}", wanted) and key(wanted) in key(said) else ""
    a, b = key(said).split(), key(wanted).split()
    if a and b and _holds(said, a, b) and not _is_part_of_word(said, wanted):
        return "part"
    if _middle_names(said.split(), wanted.split()):
        return "name"
    return "spelling" if a and [_squeezed(w) for w in a] == [_squeezed(w) for w in b] else ""


def _holds(said: str, words: list[str], part: list[str]) -> bool:
    """`part` stands in `words` as it is, as the head and not as a part of another name or thing."""
    for at in range(len(words) - len(part) + 1):
        if words[at : at + len(part)] != part:
            continue
        before, after = words[:at], words[at + len(part) :]
        if AWAY.intersection(before) or {"is", "was", "has", "and"}.intersection(after):
            return False
        if _is_name_before(said, before[-1:] if len(part) > 1 else before):
            return False
        return len(part) > 1 or (not after and len(before) <= 3)
    return False


def _is_part_of_word(said: str, wanted: str) -> bool:
    """Whether something hangs on it: anti-Paris, blue-red; or a name of several words goes on (New York Times)."""
    goes_on = r"\s+[A-Z][a-z]" if len(wanted.split()) > 1 else "$^"
    form = re.escape(wanted)
    return bool(re.search(rf"[^\W\d_]-(?i:{form})(?!\w)|(?<!\w)(?i:{form})(?:-[^\W\d_]|{goes_on})", said))


def _is_name_before(said: str, before: list[str]) -> bool:
    """Whether one of the words before is a name or an owner (West Virginia, San Francisco Museum, fool's gold)."""
    names = (word for word in said.split()[:-1] if word[:1].isupper() or word.endswith(("'s", "s'")))
    capitals = {key(word) for word in names} - {"the", "a", "an", "it"}
    return bool(capitals.intersection(before))


def _middle_names(said: list[str], wanted: list[str]) -> bool:
    """First and last name are those of the truth, and only names or initials stand between."""
    if len(wanted) < 2 or not len(wanted) < len(said) <= len(wanted) + 2:
        return False
    if key(said[0]) != key(wanted[0]) or key(said[-1]) != key(wanted[-1]):
        return False
    rest = iter(said)
    in_order = all(any(key(word) == key(each) for each in rest) for word in wanted)
    extra = [word for word in said if key(word) not in {key(each) for each in wanted}]
    return in_order and all(word[:1].isupper() and (INITIAL.fullmatch(word) or word.isalpha()) for word in extra)


def _squeezed(word: str) -> str:
    """A word without doubled letters: Johansson and Johanson are one."""
    return re.sub(r"([^\W\d_])\1", r"\1", word) if len(word) >= 7 else word
