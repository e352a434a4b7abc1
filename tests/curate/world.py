"""Sums that need a search: a model whose answers are paid for, and episodes of it that can be killed."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.world import Adder, OnePassage, adding, questions, settings
from vlagent.agent.config import AgentConfig
from vlagent.bench.evaluate import Watcher, evaluate
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.curate.budget import CALLS, Paid
from vlagent.curate.synthesise import Cast, Settings, Synthesis, coached, synthesise
from vlagent.types import Call, Hit, ImageRef, Observation, Outcome, Sample, Source, StopReason, Trajectory, Turn

__all__ = ["OnePassage", "questions"]


@dataclass
class Dear:
    """A model that writes down each answer that it has given."""

    log: Path
    inner: Adder
    name: str = "dear"

    async def complete(self, request: ChatRequest) -> ChatReply:
        reply = await self.inner.complete(request)
        with self.log.open("a") as file:
            file.write(f"{request.key}\n")
        return reply

    @property
    def answered(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def dear(folder: Path, delay_s: float = 0.0) -> Dear:
    return Dear(folder / "answered.txt", Adder(delay_s))


async def mine_here(folder: Path, model: Dear, samples: list[Sample], k: int = 8, **changes: object) -> Paid:
    """The rollouts of `curate mine` in folder/run."""
    paid = Paid(model, folder / "run" / CALLS)
    agent = replace(adding(Adder(), workflow="agent"), model=paid)
    await evaluate(settings(agent, k=k, concurrency=4, **changes), agent, samples, folder / "run")
    return paid


async def synthesise_here(
    folder: Path, model: Dear, samples: list[Sample], made: Settings | None = None, **changes: object
) -> Synthesis:
    """`curate synthesise` in folder/run."""
    made, experts = made or Settings(), changes.pop("experts", None)
    agent = replace(adding(Adder(), workflow="agent"), model=Paid(model, folder / "run" / CALLS))
    config = settings(agent, k=changes.pop("k", 3), concurrency=4, **changes)
    cast = Cast(coached(agent, made, samples, []), experts)
    return await synthesise(config, made, cast, samples, folder / "run", Watcher())


PHOTO = ImageRef(path="photo.png", width=640, height=480)


def sample(question: str, *answers: str, images: tuple[ImageRef, ...] = (PHOTO,), **extra: object) -> Sample:
    return Sample(id=question[:40], source="made", question=question, answers=answers, images=images, **extra)


def look(think: str, name: str = "image_crop", **arguments: object) -> Turn:
    """A crop that worked, or another call."""
    given = arguments or ({"bbox": [0.0, 0.0, 200.0, 200.0], "image_index": 0} if name == "image_crop" else {})
    shown = (ImageRef(path="crop.png", width=64, height=64),) if name == "image_crop" else ()
    return _turn(think, Call(name=name, arguments=given), Observation(text="Image 1:", images=shown))


def search(think: str, query: str, *passages: tuple[str, str]) -> Turn:
    """A text search with (title, text) results."""
    hits = tuple(Hit(source=Source(title=title), text=text) for title, text in passages)
    said = "\n\n".join(f"[{n}] {title}\n{text}" for n, (title, text) in enumerate(passages, 1)) or "No results."
    return _turn(think, Call(name="text_search", arguments={"query": query}), Observation(text=said, hits=hits))


def by_image(think: str, *titles: str) -> Turn:
    """An image search with these titles."""
    hits = tuple(Hit(source=Source(title=title)) for title in titles)
    said = "\n".join(["Pages that show image 0:", *(f"Title {n}: {title}" for n, title in enumerate(titles, 1))])
    return _turn(think, Call(name="image_search", arguments={"image_index": 0}), Observation(text=said, hits=hits))


def answer(think: str, value: str) -> Turn:
    text = f"<think>{think}</think>\n<answer>{value}</answer>"
    return Turn(text=text, think=think, answer=value, format_ok=True)


def _turn(think: str, call: Call, seen: Observation) -> Turn:
    body = call.model_dump_json()
    text = f"<think>{think}</think>\n<tool_call>\n{body}\n</tool_call>"
    return Turn(text=text, think=think, call=call, format_ok=True, observation=seen)


def episode(asked: Sample, *turns: Turn, rollout: int = 0) -> Trajectory:
    shown = [ref for turn in turns if turn.observation for ref in turn.observation.images]
    return Trajectory(
        sample_id=asked.id,
        rollout=rollout,
        turns=turns,
        answer=turns[-1].answer,
        stop=StopReason.ANSWERED,
        images=(*asked.images, *shown),
    )


AGENT = AgentConfig()
RIGHT = Outcome.RIGHT


def main() -> None:
    """`python -m tests.curate.world VERB FOLDER COUNT DELAY_S`: what tests kill."""
    verb, folder, count, delay_s = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    play = mine_here if verb == "mine" else synthesise_here
    asyncio.run(play(folder, dear(folder, delay_s), questions(count)))


if __name__ == "__main__":
    main()
