"""Inspect: every suite as a task, our agent as its solver, our scoring as its scorer.

    inspect eval vlagent/hr_mmsearch --model openai/gpt-5 -T data=~/bench -T search=~/index

The model is Inspect's own, with its retries, caches, limits and sampling; the loop, the tools, the parser and the rules
of scoring are ours, the same as in `vlagent eval`. A service that fails in mid-episode fails the sample, which is
never a wrong answer (`--no-fail-on-error` goes on with the others); no verdict is Inspect's "unscored".
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as InspectSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Content,
    ContentImage,
    ContentText,
    GenerateConfig,
    Model,
    get_model,
)
from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from vlagent.agent.config import AgentConfig, preset
from vlagent.agent.loop import Agent, run_agent
from vlagent.bench.statistics import picture_clusters
from vlagent.bench.suites import SUITES, data_folder, load_target
from vlagent.chat.base import ChatReply, ChatRequest, ImagePart, Message
from vlagent.chat.pictures import DataUrls
from vlagent.errors import ServiceError, UserError
from vlagent.render.dialects import get_dialect
from vlagent.rewards.judge import Judge
from vlagent.rewards.rubric import FAILURES, outcome_of
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.types import FinishReason, Outcome, Sample, StopReason, Trajectory, Usage

KEPT = "vlagent"
"""Where a sample keeps ours, and a finished one its trajectory."""
CLUSTER = "pictures"
"""Questions that share a picture have the same value; the standard error is clustered by it."""
ROLES: dict[str, Callable[..., ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
FINISHED: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
}


class InspectChat:
    """A model of Inspect's behind our seam. What it raises ends the sample as an error, as with any solver."""

    def __init__(self, model: Model, *, sampling: bool = False) -> None:
        """With `sampling` a request's own temperature and its like are passed on; otherwise Inspect's flags rule."""
        self.name = model.name
        self._model = model
        self._sampling = sampling
        self._urls = DataUrls()

    async def complete(self, request: ChatRequest) -> ChatReply:
        """One generation."""
        messages = [await self._message(message) for message in request.messages]
        output = await self._model.generate(messages, config=self._config(request))
        used = output.usage
        return ChatReply(
            text=output.completion,
            finish_reason=FINISHED.get(output.stop_reason, "stop"),
            usage=Usage(
                prompt_tokens=used.input_tokens if used else 0,
                completion_tokens=used.output_tokens if used else 0,
                calls=1,
            ),
        )

    def _config(self, request: ChatRequest) -> GenerateConfig:
        given = request.sampling.model_dump(exclude_none=True) if self._sampling else {}
        given |= {"max_tokens": request.sampling.max_tokens, "stop_seqs": list(request.stop) or None}
        return GenerateConfig(**given)

    async def _message(self, message: Message) -> ChatMessage:
        parts: list[Content] = [
            ContentImage(image=await self._urls.of(part))
            if isinstance(part, ImagePart)
            else ContentText(text=part.text)
            for part in message.parts
        ]
        return ROLES[message.role](content=parts if message.images else message.text)


@solver
def agent(
    search: str | None = None, workflow: str = "agent", setting: str | None = None, dialect: str = "default"
) -> Solver:
    """Our loop as a solver. `search` is a folder that `vlagent index` made, `setting` a published preset."""
    config = _config(workflow, setting, dialect, search)
    services = open_search(Path(search).expanduser()) if search else open_search(None)
    needed = {"agent": config.tools, "rag": ("text_search", "image_search"), "direct": ()}[config.workflow]
    tools = make_tools(needed, search=services)

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - the signature is Inspect's
        chat = InspectChat(get_model(), sampling=setting is not None)
        sample = Sample.model_validate(state.metadata[KEPT])
        played = await run_agent(Agent(chat, config, tools, services), sample, state.epoch - 1)
        if played.stop in FAILURES:
            raise ServiceError(str(played.stop), played.stop_detail)
        state.store.set(KEPT, played.model_dump(mode="json"))
        state.output.completion = played.answer or ""
        state.messages.extend(_told(played))
        return state

    return solve


def _config(workflow: str, setting: str | None, dialect: str, search: str | None) -> AgentConfig:
    if get_dialect(dialect).native:
        raise UserError(f"dialect {dialect!r}: through Inspect the dialects that write their calls as text are played")
    searches = ("text_search", "image_search") if search else ()
    given: dict[str, Any] = {"workflow": workflow, "dialect": dialect, "tools": ("image_crop", *searches)}
    return preset(setting, **given) if setting else AgentConfig.model_validate(given)


def _told(played: Trajectory) -> list[ChatMessage]:
    """The turns for Inspect's log view."""
    told: list[ChatMessage] = []
    for turn in played.turns:
        told.append(ChatMessageAssistant(content=turn.text))
        if turn.observation is not None:
            told.append(ChatMessageUser(content=turn.observation.text))
    return told


@scorer(metrics=[accuracy(), stderr(cluster=CLUSTER)])
def rules(judge: str | None = None) -> Scorer:
    """Our rules, then the judge that is named (a model of Inspect's, or `grader` for its grader role)."""

    @functools.cache
    def marker() -> Judge | None:
        """Made once the evaluation runs: its roles are not known before."""
        if judge is None:
            return None
        return Judge(InspectChat(get_model(role="grader") if judge == "grader" else get_model(judge), sampling=True))

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - the signature is Inspect's
        played = _played(state)
        scored = await outcome_of(Sample.model_validate(state.metadata[KEPT]), played, marker())
        if scored.outcome is Outcome.FAILED:
            raise ServiceError("judge", scored.why)
        if scored.outcome is Outcome.UNSCORED:
            return Score.unscored(reason="grader_failed", answer=played.answer, explanation=scored.why)
        value = CORRECT if scored.outcome is Outcome.RIGHT else INCORRECT
        parts = dict(scored.reward.parts) if scored.reward else {}
        return Score(value=value, answer=played.answer, explanation=scored.why, metadata={"stop": played.stop, **parts})

    return score


def _played(state: TaskState) -> Trajectory:
    """The trajectory of our solver, or what another solver has answered as one."""
    kept = state.store.get(KEPT)
    if kept is not None:
        return Trajectory.model_validate(kept)
    return Trajectory(
        sample_id=str(state.sample_id),
        workflow="direct",
        answer=state.output.completion,
        stop=StopReason.ANSWERED,
    )


def to_inspect(samples: Sequence[Sample]) -> MemoryDataset:
    """Our samples as Inspect's; the pictures are shown to solvers other than ours too."""
    clusters = picture_clusters(samples)
    return MemoryDataset(
        [
            InspectSample(
                id=sample.id,
                input=[ChatMessageUser(content=_content(sample))],
                target=list(sample.answers),
                choices=None,
                metadata={KEPT: sample.model_dump(mode="json"), CLUSTER: clusters[sample.id], "suite": sample.source},
            )
            for sample in samples
        ],
        name=samples[0].source if samples else None,
    )


def _content(sample: Sample) -> list[Content]:
    return [*(ContentImage(image=image.path) for image in sample.images), ContentText(text=sample.question)]


def _define(name: str) -> Callable[..., Task]:
    @task(name=name)
    def of_suite(
        data: str | None = None,
        search: str | None = None,
        workflow: str = "agent",
        setting: str | None = None,
        dialect: str = "default",
        judge: str | None = None,
    ) -> Task:
        """A suite as a task; the published number of rollouts is its number of epochs."""
        samples = load_target(name, data_folder(data), warn=lambda _: None)
        return Task(
            dataset=to_inspect(samples),
            solver=agent(search, workflow, setting, dialect),
            scorer=rules(judge),
            epochs=SUITES[name].k,
        )

    return of_suite


TASKS = {name: _define(name) for name in SUITES}
"""`vlagent/SUITE` for each; made when Inspect loads the entry point."""
