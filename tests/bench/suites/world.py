"""A model that answers from what it observes, the search that it asks, the judge that marks it, and one evaluation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from tests.bench.suites.items import KNOWLEDGE, PALETTE, PERCEPTION, Item
from tests.bench.suites.published import PUBLISHED, released
from vlagent import images
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.bench.suites import SUITES, Found, resolve_suites
from vlagent.bench.summary import Summary
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart
from vlagent.errors import TransientError
from vlagent.rewards.judge import Judge
from vlagent.search.base import SearchServices, TextQuery
from vlagent.tools.base import RetryPolicy
from vlagent.tools.registry import make_tools
from vlagent.types import Hit, Source

CALL = '<think>Look, then ask.</think><tool_call>{"name": "%s", "arguments": %s}</tool_call>'
CROP = CALL % ("image_crop", '{"bbox": [800, 800, 1000, 1000], "image_index": 0}')
ANSWER = "<think>So it is.</think><answer>%s</answer>"


@dataclass
class Passages:
    """What is written about each thing, by its colour and number."""

    items: Sequence[Item]

    async def search(self, query: TextQuery) -> list[Hit]:
        colour, number = re.findall(r"(\w+) thing (\d+)", query.text)[0]
        found = [i for i in self.items if i.colour == colour and i.number == int(number) and i.said]
        return [Hit(source=Source(title=f"Thing {i.number}", file="t.txt"), text=f"It is {i.said}.") for i in found]


@dataclass
class Observer:
    """Crops the corner, names its colour, then picks the option or searches; it knows nothing that it has not seen."""

    items: Sequence[Item]
    name: str = "observer"

    async def complete(self, request: ChatRequest) -> ChatReply:
        asked = next(message for message in request.messages if message.role == "user").text
        turn = sum(message.role == "assistant" for message in request.messages)
        seen = [part for message in request.messages for part in message.parts if isinstance(part, ImagePart)]
        crop = images.load(seen[1].ref) if turn > 0 else None
        return ChatReply(write(self.items, asked, turn, crop, request.messages[-1].text))


def write(items: Sequence[Item], asked: str, turn: int, crop: Image.Image | None, last: str) -> str:
    """The observer's next turn, from the question, the crop and the last observation alone."""
    number = int(re.findall(r"thing (\d+)\?", asked)[0])
    plant = next(item.plant for item in items if item.number == number)
    if plant == "down":
        raise TransientError("model", "the endpoint is down")
    if crop is None:
        return CROP
    colour = colour_of(crop)
    options = dict(re.findall(rf"(?m)^\(?([A-E])[).] ({'|'.join(PALETTE)})$", asked))
    if options:
        letter = next(letter for letter, text in options.items() if text == colour)
        return ANSWER % (f"{letter} or D" if plant == "both" else letter)
    if turn == 1:
        return CALL % ("text_search", f'{{"query": "{colour} thing {number}"}}')
    found = re.search(r"It is (.+?)\.", last)
    return ANSWER % (found[1] if found else "unknown")


def colour_of(picture: Image.Image) -> str:
    """The colour of the palette that is nearest to a picture's mean."""
    mean = np.asarray(picture.convert("RGB"), dtype=float).mean(axis=(0, 1))
    return min(PALETTE, key=lambda name: float(np.abs(mean - PALETTE[name]).sum()))


class Marker:
    """A judge that knows the old names, and says nothing about what is unclear."""

    name = "marker"

    async def complete(self, request: ChatRequest) -> ChatReply:
        said = "".join(message.text for message in request.messages if message.role == "user")
        if "Something Unclear" in said:
            return ChatReply("I cannot tell.")
        return ChatReply(f"VERDICT: {'YES' if 'The Old One' in said else 'NO'}")


def lay_out(root: Path, suite: str, layout: str) -> Found:
    """Write a suite's items in a layout, and find them again by the suite's name."""
    items, metric = items_of(suite)
    if layout == "released manifest":
        released(root, (*SUITES[suite].entries, suite)[0], items, options=metric == "option")
    else:
        PUBLISHED[suite, layout](root, items)
    return resolve_suites([suite], root)[0]


def items_of(suite: str) -> tuple[Sequence[Item], str]:
    metric = SUITES[suite].metric
    return (PERCEPTION if metric == "option" else KNOWLEDGE), metric


async def play(found: Found, run: Path, *, items: Sequence[Item] | None = None, k: int = 1) -> Summary:
    """Evaluate the observer on a suite."""
    items = items_of(found.suite)[0] if items is None else items
    search = SearchServices(text=Passages(items))
    tools = ("image_crop", "text_search")
    config = AgentConfig(tools=tools)
    retry = RetryPolicy(attempts=1)
    agent = Agent(Observer(items), config, make_tools(tools, search=search), search, retry=retry)
    settings = EvalConfig(target=found.suite, model="observer", agent=config, k=k, max_failed_share=0.5)
    samples = found.load(warn=lambda _: None)
    return (await evaluate(settings, agent, samples, run, Judge(Marker(), attempts=1))).summary


def outcomes(summary: Summary) -> dict[str, int]:
    counts = summary.counts
    return {name: getattr(counts, name) for name in ("right", "wrong", "unscored", "failed")}
