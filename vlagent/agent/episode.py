"""The state of one episode: the conversation, the pictures, the counts. The rules are in `loop`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from vlagent.agent.config import AgentConfig
from vlagent.agent.events import Ended, Event, Started, Watch
from vlagent.agent.hooks import CallHook
from vlagent.agent.ledger import Ledger
from vlagent.agent.parse import scrub
from vlagent.chat.base import ChatModel, ChatReply, ImagePart, Message, TextPart
from vlagent.errors import UserError
from vlagent.render.dialects import Dialect, ImageKind, get_dialect, new_kind
from vlagent.render.prompts import ToolSpec
from vlagent.render.sizing import fit
from vlagent.search.base import SearchServices
from vlagent.tools.base import Arguments, RetryPolicy, Tool, ToolContext
from vlagent.types import (
    Fault,
    ImageRef,
    Observation,
    Sample,
    Source,
    StopReason,
    Timings,
    Trajectory,
    Turn,
    Usage,
)

LAST_TURN = "Your next turn is the last one: it must give the answer."
TOO_LONG = "The result is too long to be shown. Give the answer now, from what you have seen."
CONTEXT_TOO_LONG = "The search results are too long to be shown."


@dataclass(frozen=True)
class Gates:
    """Slots that episodes share, so that no service gets more at once than it can take."""

    model: AbstractAsyncContextManager[object] | None = None
    tools: Mapping[str, AbstractAsyncContextManager[object]] = field(default_factory=dict)


@dataclass
class Agent:
    """Everything that an episode needs besides its sample; shared by all episodes of a run.

    A model may have two more attributes: `special_tokens` (a sequence of str, broken in all outside text) and
    `count_tokens(text) -> int` (used where it reports no usage).
    """

    model: ChatModel
    config: AgentConfig
    tools: Mapping[str, Tool]
    search: SearchServices
    hook: CallHook | None = None
    watch: Watch | None = None
    folder: Path | None = None
    """Where tools may leave pictures (the run's images/)."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    gates: Gates = field(default_factory=Gates)

    def __post_init__(self) -> None:
        missing = [name for name in self._needed() if name not in self.tools]
        if missing:
            given = ", ".join(self.tools) or "none"
            raise UserError(f"tool {missing[0]!r} is needed by workflow {self.config.workflow!r}; given are {given}")

    def _needed(self) -> tuple[str, ...]:
        return {"agent": self.config.tools, "rag": ("text_search",), "direct": ()}[self.config.workflow]


@dataclass(frozen=True)
class Ending:
    """Why an episode is over, and one line for a person."""

    stop: StopReason
    detail: str = ""


@dataclass
class Episode:
    """One sample on its way to a trajectory."""

    agent: Agent
    sample: Sample
    rollout: int
    dialect: Dialect
    tools: Mapping[str, Tool]
    """What the model may call; empty in `direct` and `rag`."""
    context: ToolContext
    ledger: Ledger
    kinds: list[ImageKind] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    retrieved: list[Observation] = field(default_factory=list)
    invalid: int = 0
    """Invalid actions in a row."""
    world_faults: int = 0
    """World faults in a row."""
    usage: Usage = field(default_factory=Usage)
    schemas: tuple[dict[str, Any], ...] = ()
    """Native tool schemas."""
    system_prompt: str = ""
    prompt: str = ""
    started: float = field(default_factory=time.monotonic)
    clock: asyncio.Timeout | None = None

    @classmethod
    def begin(cls, agent: Agent, sample: Sample, rollout: int) -> Episode:
        config = agent.config
        dialect = get_dialect(config.dialect)
        specials = tuple(getattr(agent.model, "special_tokens", ()))
        context = ToolContext(
            sample=sample,
            images=[],
            search=agent.search,
            top_k=config.top_k,
            crop_source=config.crop_source,
            min_pixels=config.pixels.min_pixels,
            folder=agent.folder,
        )
        episode = cls(
            agent=agent,
            sample=sample,
            rollout=rollout,
            dialect=replace(dialect, specials=(*dialect.specials, *specials)) if specials else dialect,
            tools={name: agent.tools[name] for name in config.tools} if config.workflow == "agent" else {},
            context=context,
            ledger=Ledger(
                config.max_tokens_total,
                config.pixels.factor,
                config.max_tokens_turn,
                getattr(agent.model, "count_tokens", None),
            ),
        )
        episode._enter(sample.images, ["input"] * len(sample.images))
        episode.tell(Started(sample.id, rollout, 0))
        return episode

    @property
    def config(self) -> AgentConfig:
        return self.agent.config

    @property
    def max_turns(self) -> int:
        return self.config.max_turns if self.config.workflow == "agent" else 1

    @property
    def index(self) -> int:
        """Of the last turn that was written."""
        return len(self.turns) - 1

    def tell(self, event: Event) -> None:
        if self.agent.watch is not None:
            self.agent.watch(event)

    def ask(self, retrieved: str = "") -> None:
        """Write the system prompt and the question; retrieved text that does not fit is replaced by one line."""
        specs = [ToolSpec(tool.name, tool.description, _schema(tool.arguments)) for tool in self.tools.values()]
        # A manifest's prompt tells of tools, so it is only right where there are some.
        manifest = self.sample.system_prompt if self.tools else None
        self.system_prompt = self.dialect.system_prompt(specs, self.config.prompts, self.max_turns, manifest)
        if self.system_prompt:
            self.messages.append(Message("system", (TextPart(self.system_prompt),)))
        self.schemas = self.dialect.tool_schemas(specs, self.config.prompts)
        self.ledger.total += self.ledger.of_text(json.dumps(self.schemas)) if self.schemas else 0
        self.ledger.add(self.messages)
        question = self._question(retrieved)
        if retrieved and not self.ledger.fits([question]):
            question = self._question(CONTEXT_TOO_LONG)
        self._say(question)
        self.prompt = question.text

    def _question(self, retrieved: str) -> Message:
        question, instruction = scrub(self.sample.question), scrub(self.sample.instruction)
        return self.dialect.question(question, self._inputs(), self.config.prompts, retrieved, instruction)

    def _inputs(self) -> list[ImagePart]:
        pairs = zip(self.context.images, self.context.views, self.kinds, strict=True)
        return [ImagePart(ref, view) for ref, view, kind in pairs if kind == "input"]

    def hear(self, turn: Turn, reply: ChatReply) -> None:
        """Take in what the model wrote."""
        self.turns.append(turn)
        self.messages.append(self.dialect.said(reply))
        self.ledger.record(reply)
        self.usage = self.usage + reply.usage.model_copy(update={"calls": max(1, reply.usage.calls)})

    def receive(self, observation: Observation) -> None:
        """Record what came back on the last turn, whether or not the model gets to see it, and count faults."""
        self._note(observation)
        if observation.fault is Fault.MODEL:
            self.invalid += 1
        else:
            self.invalid = 0
            self.world_faults = self.world_faults + 1 if observation.fault is Fault.WORLD else 0

    def show(self, observation: Observation, notice: str = "") -> bool:
        """Answer the last turn. What does not fit is replaced by one line; False when that does not fit either."""
        for shown in (observation, _without_content(observation)):
            messages = self._render(shown, notice)
            if self.ledger.fits(messages):
                self._enter(shown.images, [new_kind(self.turns[-1].call)] * len(shown.images))
                self.context.hits.extend(shown.hits)
                self._say(*messages)
                self._note(shown.model_copy(update={"text": f"{shown.text}\n{notice}"}) if notice else shown)
                return True
        self._note(shown)
        return False

    def _note(self, observation: Observation) -> None:
        self.turns[-1] = self.turns[-1].model_copy(update={"observation": observation})

    def _render(self, observation: Observation, notice: str) -> tuple[Message, ...]:
        images = [ImagePart(ref, self._view(ref)) for ref in observation.images]
        turn = self.turns[-1]
        return self.dialect.observation(observation, turn.call, images, self.kinds, turn.native_id, notice)

    def _say(self, *messages: Message) -> None:
        self.messages.extend(messages)
        self.ledger.add(messages)

    def _enter(self, images: Sequence[ImageRef], kinds: Sequence[ImageKind]) -> None:
        self.context.images.extend(images)
        self.context.views.extend(self._view(ref) for ref in images)
        self.kinds.extend(kinds)

    def _view(self, ref: ImageRef) -> tuple[int, int]:
        return fit(ref.width, ref.height, self.config.pixels)

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop the clock of the time limit: a person is thinking."""
        when = self.clock.when() if self.clock else None
        if self.clock is None or when is None:
            yield
            return
        loop = asyncio.get_running_loop()
        left = when - loop.time()
        self.clock.reschedule(None)
        yield
        self.clock.reschedule(loop.time() + left)

    def end(self, ending: Ending) -> Trajectory:
        """The trajectory so far, whatever ended it; told to the watcher."""
        trajectory = Trajectory(
            sample_id=self.sample.id,
            rollout=self.rollout,
            workflow=self.config.workflow,
            dialect=self.config.dialect,
            turns=tuple(self.turns),
            answer=self.turns[-1].answer if ending.stop is StopReason.ANSWERED else None,
            stop=ending.stop,
            stop_detail=ending.detail,
            images=tuple(self.context.images),
            context=tuple(self.retrieved),
            sources=self._sources(),
            system_prompt=self.system_prompt,
            prompt=self.prompt,
            usage=self.usage,
            timings=self._timings(),
        )
        self.tell(Ended(self.sample.id, self.rollout, len(self.turns), trajectory))
        return trajectory

    def _observations(self) -> list[Observation]:
        return [*self.retrieved, *(turn.observation for turn in self.turns if turn.observation)]

    def _sources(self) -> tuple[Source, ...]:
        """Of every result that the model saw, in order of first appearance."""
        return tuple(dict.fromkeys(source for seen in self._observations() for source in seen.sources))

    def _timings(self) -> Timings:
        return Timings(
            total_s=time.monotonic() - self.started,
            model_s=sum(turn.latency_s for turn in self.turns),
            tools_s=sum(seen.latency_s for seen in self._observations()),
        )


@cache
def _schema(arguments: type[Arguments]) -> dict[str, Any]:
    """Made once a class: it would be a third of the cost of an episode."""
    return arguments.model_json_schema()


def _without_content(observation: Observation) -> Observation:
    return observation.model_copy(update={"text": TOO_LONG, "own_words": True, "images": (), "hits": (), "sources": ()})
