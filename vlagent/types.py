"""Every type that flows through the package, in the order of the flow.

Sample -> Trajectory(Turn, Observation) -> Reward -> Group -> TrainRow. What touches disk or wire is a frozen pydantic
record; what holds tensors or live objects is a dataclass.

Shape letters: L = tokens of a sequence, G = trajectories of a group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

Ids = NDArray[np.int64]
"""Token ids, [L]."""
Logprobs = NDArray[np.float32]
"""Natural-log probabilities of those ids under the sampler, [L]."""
Box = tuple[int, int, int, int]
"""Left, top, right, bottom in pixels of the oriented source picture; right and bottom are exclusive."""


class Record(BaseModel):
    """A frozen value that can be written to disk or sent over a wire. Unknown fields are an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ImageRef(Record):
    """A picture by address. Pixels are loaded only where they are needed."""

    path: str
    width: int = Field(gt=0)
    """Pixels of this region, after EXIF orientation."""
    height: int = Field(gt=0)
    box: Box | None = None
    """The region of the oriented source file; None is the whole picture."""

    @model_validator(mode="after")
    def _size_is_that_of_the_box(self) -> Self:
        if self.box and (self.box[2] - self.box[0], self.box[3] - self.box[1]) != (self.width, self.height):
            raise ValueError(f"box {self.box} is not {self.width} x {self.height} pixels")
        return self


class Source(Record):
    """Where a piece of text or a picture comes from."""

    title: str
    file: str | None = None
    page: int | None = None
    """Page of the file, from 1."""
    url: str | None = None


class Hit(Record):
    """One result of a text or image search, best first in its list."""

    source: Source
    text: str = ""
    score: float = 0.0
    thumbnail: ImageRef | None = None
    degraded: bool = False
    """The text is only what the search engine said of the page: the page itself could not be read."""
    flags: tuple[str, ...] = ()
    """What a reader of the text should know: it holds instructions, contradicts another hit, is about a namesake."""


class CachedImageSearch(Record):
    """The reverse image search of a sample's image, stored with published data."""

    titles: tuple[str, ...] = ()
    thumbnails: tuple[str | None, ...] = ()
    """One path or None a title, so that a missing thumbnail never shifts the others."""
    summary: str = ""


class Sample(Record):
    """One question about some pictures."""

    id: str
    source: str
    """The data set (suite) that it comes from."""
    question: str
    images: tuple[ImageRef, ...] = ()
    answers: tuple[str, ...] = ()
    """Accepted ground truths; any of them suffices."""
    choices: dict[str, str] = {}
    """Option letter -> text. Empty for an open question."""
    image_search: CachedImageSearch | None = None
    system_prompt: str | None = None
    """A manifest's own prompt; wins over the dialect's."""
    instruction: str = ""
    """A manifest's own words on how to write the answer; they follow the question and may name the protocol's tags."""
    extra: dict[str, Any] = {}
    """Stray fields of the row, kept as they were (kind, difficulty, category, gold boxes, ...)."""


class Fault(StrEnum):
    """Who is to blame for a failed action."""

    MODEL = "model"
    """The call was wrong: unknown tool, bad JSON, a box outside the picture. Costs reward."""
    WORLD = "world"
    """The call was fine but the service failed. Never costs reward."""


class StopReason(StrEnum):
    """Why an episode ended. Every episode has exactly one."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    BUDGET_LIMIT = "budget_limit"
    INVALID_ACTIONS = "invalid_actions"
    TOOL_FAILURE = "tool_failure"
    MODEL_FAILURE = "model_failure"
    STOPPED_BY_USER = "stopped_by_user"
    CANCELLED = "cancelled"


FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why the engine stopped writing."""


class Call(Record):
    """A tool call in canonical form (protocol.md), whatever the dialect that it was written in."""

    name: str
    arguments: dict[str, Any] = {}


class Observation(Record):
    """What the environment answers to one action."""

    text: str
    images: tuple[ImageRef, ...] = ()
    sources: tuple[Source, ...] = ()
    fault: Fault | None = None
    degraded: bool = False
    """Some part of the service failed, the rest is usable (a page or a summary is missing)."""
    own_words: bool = False
    """The text is the environment's (refused, edited, too long), not a tool's: every dialect shows it as it stands."""
    hits: tuple[Hit, ...] = ()
    """The raw results behind the text, for dialects that lay them out themselves and for reports."""
    latency_s: float = 0.0
    retries: int = 0


@dataclass(frozen=True, eq=False)
class Tokens:
    """The ids that an engine sampled and how likely it found them."""

    ids: Ids
    """[L]"""
    logprobs: Logprobs | None
    """[L]; None where the engine gives none."""


class Usage(Record):
    """What a model call, or all calls of an episode, consumed."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            calls=self.calls + other.calls,
        )


class Turn(Record):
    """One thing that the model wrote, what the parser made of it, and what came back."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    text: str
    think: str | None = None
    call: Call | None = None
    answer: str | None = None
    error: str | None = None
    """Set when the turn holds no executable action: the text of the error observation."""
    repairs: tuple[str, ...] = ()
    format_ok: bool = False
    finish_reason: FinishReason = "stop"
    observation: Observation | None = None
    edited_by: str | None = None
    """Who changed the call before it ran ('user' or a hook's name); such a turn is never trained on."""
    native_id: str | None = None
    """The id of a native tool call (openai-tools dialect)."""
    latency_s: float = 0.0
    tokens: Tokens | None = Field(default=None, exclude=True)
    """As sampled; kept in side files, never in the JSON record."""


class Timings(Record):
    """Seconds of wall time."""

    total_s: float = 0.0
    model_s: float = 0.0
    tools_s: float = 0.0


class Trajectory(Record):
    """One episode. A failed one is data, not a crash."""

    version: Literal[1] = 1
    sample_id: str
    rollout: int = 0
    workflow: Literal["direct", "rag", "agent"] = "agent"
    dialect: str = "default"
    turns: tuple[Turn, ...] = ()
    answer: str | None = None
    stop: StopReason
    stop_detail: str = ""
    """One line for a person: which service failed, which limit was met."""
    images: tuple[ImageRef, ...] = ()
    """Every picture of the context in its order of entry: inputs, then crops and thumbnails."""
    context: tuple[Observation, ...] = ()
    """What was looked up before the first turn (workflow `rag`)."""
    sources: tuple[Source, ...] = ()
    """What the answer rests on, in order of first appearance."""
    system_prompt: str = ""
    prompt: str = ""
    """The text of the first user message as the model saw it."""
    usage: Usage = Usage()
    timings: Timings = Timings()

    @property
    def degraded(self) -> bool:
        """Whether any service failed on the way (such an episode never trains)."""
        seen = (*self.context, *(turn.observation for turn in self.turns if turn.observation))
        return any(observation.fault is Fault.WORLD or observation.degraded for observation in seen)


class Reward(Record):
    """Parts by name in [0, 1] and their weights."""

    parts: dict[str, float]
    weights: dict[str, float]
    why: dict[str, str] = {}

    @property
    def total(self) -> float:
        return sum(self.weights[name] * value for name, value in self.parts.items())


class Outcome(StrEnum):
    """What an episode counts as. right + wrong + unscored + failed = total; the rest is listed apart."""

    RIGHT = "right"
    WRONG = "wrong"
    UNSCORED = "unscored"
    FAILED = "failed"
    NOT_COUNTED = "not_counted"


class EvalRow(Record):
    """One scored episode of an evaluation."""

    version: Literal[1] = 1
    suite: str
    sample_id: str
    rollout: int = 0
    outcome: Outcome
    degraded: bool = False
    answer: str | None = None
    answers: tuple[str, ...] = ()
    why: str = ""
    """How the outcome was decided: the matching rule, the judge's verdict, or the failure."""
    by: str = ""
    """What decided: `rule`, `option`, `judge`, `limit`; empty where nothing did."""
    stop: StopReason
    reward: Reward | None = None
    slices: dict[str, str] = {}
    """kind, difficulty, category, ... for tables."""


@dataclass
class Group:
    """One sample, G trajectories, G rewards."""

    sample: Sample
    trajectories: list[Trajectory]
    rewards: list[Reward | None]
    """None where the episode cannot be scored or must not train."""
    rows: list[EvalRow] = field(default_factory=list)
    """How each trajectory was scored: outcome, reason, and its reward even where it must not train."""


@dataclass
class TrainRow:
    """One sequence to train on; the same for SFT (advantage 1) and RL."""

    ids: Ids
    """[L]"""
    mask: NDArray[np.bool_]
    """[L]; True on tokens that the policy itself wrote."""
    logprobs: Logprobs | None
    """[L]; the sampler's, 0 where mask is False."""
    advantage: float = 1.0
    images: list[ImageRef] = field(default_factory=list)
    """In the order of their placeholders."""
    sample_id: str = ""
    views: list[tuple[int, int]] = field(default_factory=list)
    """(width, height) in pixels at which the model sees each of them."""
