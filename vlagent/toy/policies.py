"""Scripted policies for the toy world: one that does everything right, one that acts blindly, one that only guesses.

They stand where a model stands: each reply depends on the messages it was sent and on where to look (`Gold`). The
oracle takes names from pixels and titles, years from passages, so that it fails wherever a tool does.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from PIL import Image

from vlagent import images
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart, Message
from vlagent.errors import UserError
from vlagent.randomness import rng_of
from vlagent.render.dialects import Dialect, get_dialect
from vlagent.toy.facts import RELATIONS, Relation, search_words, value_in
from vlagent.toy.gold import Gold, gold_of, guess, names_in
from vlagent.toy.lexicon import PLACE_KINDS, PLACE_NAMES, PLACES
from vlagent.toy.questions import IMAGE_CALL, combine, text_call
from vlagent.toy.reading import read_sign
from vlagent.types import Box, Call, Sample, Turn

_TITLE = re.compile(rf"(?:Old )?\b(?:{'|'.join(PLACE_NAMES)}) (?:{'|'.join(PLACE_KINDS)})(?: (?:Hotel|Road|Annex))?\b")


@dataclass(frozen=True)
class Exchange:
    """What came back for one call: its text, and its first picture as the policy sees it."""

    text: str
    picture: Callable[[], Image.Image] | None = None


@dataclass(frozen=True)
class Move:
    """The next thing to do: a call or an answer."""

    think: str
    call: Call | None = None
    answer: str | None = None


def next_move(gold: Gold, exchanges: Sequence[Exchange], names: tuple[str, ...], rng: random.Random) -> Move:
    """The oracle's next move after what it was shown so far; a guess as soon as something cannot be found."""
    results = iter(exchanges)
    found: list[str | None] = [gold.subject] if gold.subject else []
    if gold.crop:
        shown = next(results, None)
        if shown is None:
            return Move(f"zoom on the {gold.colour} sign", Call(name="image_crop", arguments=_crop(gold)))
        found.append(_read(gold, shown, names))
    if gold.needs_place:
        shown = next(results, None)
        if shown is None:
            return Move("find the place", IMAGE_CALL)
        found.append(_top_title(shown.text))
    if None in found:
        return Move("it cannot be seen, so guess", answer=guess(rng, gold, names))
    known = [name for name in found if name is not None]
    if gold.kind == "read":
        return Move(f"it says {known[0]}", answer=known[0])
    return _look_up(gold, known, results, guess(rng, gold, names))


def _look_up(gold: Gold, known: Sequence[str], results: Iterable[Exchange], blind: str) -> Move:
    values: list[str] = []
    remaining = iter(results)
    for name in known:
        shown = next(remaining, None)
        if shown is None:
            return Move(f"search {name}", text_call(name, gold.relation))
        value = value_in(shown.text, name, gold.relation)
        if value is None:
            return Move("it is not written, so guess", answer=blind)
        values.append(value)
    if gold.kind != "both":
        return Move(f"the answer is {values[0]}", answer=values[0])
    answer = combine(int(values[0]), int(values[1]), gold.form or "difference")
    return Move(f"the years are {values[0]} and {values[1]}, the answer is {answer}", answer=answer)


def _crop(gold: Gold) -> dict[str, object]:
    return {"bbox": list(gold.crop or ()), "image_index": 0}


def _read(gold: Gold, shown: Exchange, names: tuple[str, ...]) -> str | None:
    if shown.picture is None or gold.crop is None or gold.sign_box is None or gold.colour is None:
        return None
    x1, y1, x2, y2 = (round(side * gold.canvas / 1000) for side in gold.crop)
    region: Box = (x1, y1, x2, y2)
    look = (gold.colour, gold.letter_size)
    return read_sign(shown.picture(), region, gold.sign_box, gold.canvas, look, names)


def _top_title(text: str) -> str | None:
    found = _TITLE.search(text)
    return found.group() if found else None


class _Policy:
    """Finds the row of a request and writes the move in the dialect."""

    name = "toy"

    def __init__(self, samples: Iterable[Sample], dialect: str = "default") -> None:
        rows = list(samples)
        self._golds = {sample.id: gold_of(sample) for sample in rows}
        self._names = names_in(rows)
        self._dialect: Dialect = get_dialect(dialect)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """Raises `UserError` for a sample that is not among the rows."""
        sample_id = str(request.key[1]) if len(request.key) > 1 else ""
        if sample_id not in self._golds:
            raise UserError(f"sample {sample_id!r}: the policy {self.name} was not given this row")
        move = self._move(self._golds[sample_id], request)
        turn = Turn(text="", think=move.think, call=move.call, answer=move.answer)
        message = self._dialect.assistant(turn)
        return ChatReply(message.text, "tool_calls" if message.calls else "stop", message.calls)

    def _move(self, gold: Gold, request: ChatRequest) -> Move:
        raise NotImplementedError


class OraclePolicy(_Policy):
    """Makes the fewest calls and believes what they say. Right on every row unless a tool or the search is broken."""

    name = "toy:oracle"

    def _move(self, gold: Gold, request: ChatRequest) -> Move:
        return next_move(gold, exchanges_of(request.messages), self._names, rng_of("oracle", *request.key))


class RandomPolicy(_Policy):
    """Calls anything and answers anything: scores what blind guessing scores."""

    name = "toy:random"

    def _move(self, gold: Gold, request: ChatRequest) -> Move:
        rng = rng_of("random", *request.key)
        tools = sum(message.role == "assistant" for message in request.messages)
        if rng.random() < 0.4 or tools >= 4:
            return Move("take a guess", answer=guess(rng, gold, self._names))
        return Move("try something", _any_call(rng, self._names))


class DirectPolicy(_Policy):
    """Never looks: always the answer that is most frequent among the rows of that kind. Scores the guess level."""

    name = "toy:direct"

    def __init__(self, samples: Iterable[Sample], dialect: str = "default") -> None:
        super().__init__(samples, dialect)
        answers: dict[str, Counter[str]] = {}
        for gold in self._golds.values():
            answers.setdefault(gold.kind, Counter())[gold.answer] += 1
        self._usual = {kind: min(c, key=lambda answer: (-c[answer], answer)) for kind, c in answers.items()}

    def _move(self, gold: Gold, request: ChatRequest) -> Move:  # noqa: ARG002
        return Move("the usual answer", answer=self._usual[gold.kind])


POLICIES: dict[str, type[_Policy]] = {kind.name: kind for kind in (OraclePolicy, RandomPolicy, DirectPolicy)}


def exchanges_of(messages: Sequence[Message]) -> list[Exchange]:
    """What came back after each of the model's own messages."""
    groups: list[list[Message]] = []
    for message in messages:
        if message.role == "assistant":
            groups.append([])
        elif groups:
            groups[-1].append(message)
    return [Exchange("\n".join(m.text for m in group), _first_picture(group)) for group in groups]


def _first_picture(group: Sequence[Message]) -> Callable[[], Image.Image] | None:
    parts = [part for message in group for part in message.images]
    return _loader(parts[0]) if parts else None


def _loader(part: ImagePart) -> Callable[[], Image.Image]:
    return lambda: images.load(part.ref, part.view)


def _any_call(rng: random.Random, names: tuple[str, ...]) -> Call:
    tool = rng.randrange(3)
    if tool == 0:
        return IMAGE_CALL
    if tool == 1:
        relation: Relation = rng.choice(RELATIONS)
        return Call(name="text_search", arguments={"query": search_words(rng.choice([*names, *PLACES]), relation)})
    x, y = rng.randrange(0, 13) * 50, rng.randrange(0, 17) * 50
    box = [float(x), float(y), float(x + 400), float(y + 200)]
    return Call(name="image_crop", arguments={"bbox": box, "image_index": 0})
