"""Help for the model that plays the expert, which no kept episode shows: demonstrations, and a hint at the answer.

Help is added to the messages on their way to the model. The loop, and so the trajectory, never holds it: what is kept
has the plain prompt, and there is nothing to strip. What the model wrote may still betray it; `flaws_leak` looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from vlagent.agent.store import read_trajectories
from vlagent.bench.runs import read_rows, read_samples
from vlagent.chat.base import ChatModel, ChatReply, ChatRequest, Message, TextPart
from vlagent.errors import UserError
from vlagent.randomness import rng_of
from vlagent.types import Outcome, Sample, Trajectory

MAX_SHOWN = 600
"""Characters of an observation in a demonstration."""
BEFORE_SHOTS = "Episodes as they should be (their pictures are left out):"
AFTER_SHOTS = "End of the examples. The question that follows is another one."
HINT = (
    "For you alone: the accepted answer is {answer}. Use it to choose well where to look, not in place of looking. "
    "Reach it by the tools, and write every thought as somebody who does not know it yet: neither the answer nor this "
    "note may show before a result states it."
)


class Shot(NamedTuple):
    """A right episode as text."""

    sample_id: str
    text: str


class Coached:
    """A `ChatModel` that sees more than the loop sends.

    Replies lose their token ids: they were sampled from another prompt than the one that is kept.
    """

    def __init__(
        self,
        inner: ChatModel,
        shots: Sequence[Shot] = (),
        answers: Mapping[str, str] | None = None,
        count: int | None = None,
    ) -> None:
        """`answers` gives the hint by sample id, None gives none. Of `shots` the first `count` are shown, never the
        question's own: it would tell the answer, where nothing looks for it afterwards."""
        self.inner, self.name = inner, inner.name
        self._shots, self._count, self._answers = tuple(shots), count, answers or {}

    def __getattr__(self, name: str) -> Any:
        """The optional attributes of a model, `aclose` and `close` among them."""
        if name.startswith("_") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def complete(self, request: ChatRequest) -> ChatReply:
        """As the inner model, of the same request with the help in it."""
        asked = str(request.key[1]) if len(request.key) > 1 else None
        answer = self._answers.get(asked) if asked is not None else None
        shots = [shot.text for shot in self._shots if shot.sample_id != asked]
        messages = _with_shots(request.messages, shots[: self._count])
        if answer is not None:
            messages = _with_hint(messages, HINT.format(answer=answer))
        return replace(await self.inner.complete(replace(request, messages=messages)), tokens=None)


def _with_shots(messages: tuple[Message, ...], shots: Sequence[str]) -> tuple[Message, ...]:
    if not shots:
        return messages
    text = "\n\n".join([BEFORE_SHOTS, *shots, AFTER_SHOTS])
    if messages and messages[0].role == "system":
        head = messages[0]
        return (replace(head, parts=(*head.parts, TextPart(f"\n\n{text}"))), *messages[1:])
    return (Message("system", (TextPart(text),)), *messages)


def _with_hint(messages: tuple[Message, ...], hint: str) -> tuple[Message, ...]:
    """At the end of the question, where no system prompt is needed and every model reads it."""
    at = next(number for number, message in enumerate(messages) if message.role == "user")
    asked = messages[at]
    return (*messages[:at], replace(asked, parts=(*asked.parts, TextPart(f"\n\n{hint}"))), *messages[at + 1 :])


def hints(samples: Sequence[Sample]) -> dict[str, str]:
    """Sample id -> its first accepted answer. Raises `UserError` where a sample has none."""
    for sample in samples:
        if not sample.answers:
            raise UserError(f"--hint: {sample.id} has no accepted answer to hint at; leave it out")
    return {sample.id: sample.answers[0] for sample in samples}


def shots_of(run: Path, count: int, seed: int = 0) -> list[Shot]:
    """Right and well-formed episodes of a run folder, one a question: `count`, and one for whose question is asked.

    Raises `UserError` where there are too few.
    """
    samples = {sample.id: sample for sample in read_samples(run)}
    rows = read_rows(run)
    good = {
        each.sample_id: _written(samples[each.sample_id], each)
        for each in read_trajectories(run)
        if each.sample_id in samples
        and all(turn.format_ok for turn in each.turns)
        and (row := rows.get((each.sample_id, each.rollout))) is not None
        and row.outcome is Outcome.RIGHT
    }
    if len(good) < count:
        raise UserError(f"{run}: {len(good)} questions with right and well-formed episodes, --shots {count} needs more")
    drawn = rng_of("shots", seed).sample(sorted(good.items()), min(count + 1, len(good)))
    return [Shot(*each) for each in drawn]


def _written(sample: Sample, trajectory: Trajectory) -> str:
    lines = [f"Question: {sample.question}"]
    for turn in trajectory.turns:
        lines.append(turn.text.strip())
        if turn.observation is not None:
            seen = " ".join(turn.observation.text.split())
            pictures = f" (and {len(turn.observation.images)} pictures)" if turn.observation.images else ""
            lines.append(f"Result: {seen[:MAX_SHOWN]}{pictures}")
    return "\n".join(lines)
