"""A trajectory back to the messages that the model saw, so that training and exports see the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vlagent.agent.config import AgentConfig
from vlagent.agent.episode import CONTEXT_TOO_LONG, LAST_TURN
from vlagent.agent.parse import scrub
from vlagent.chat.base import ChatReply, ImagePart, Message, TextPart
from vlagent.render.dialects import Dialect, ImageKind, get_dialect, new_kind
from vlagent.render.prompts import ToolSpec
from vlagent.render.sizing import PixelLimits, fit
from vlagent.tools.registry import make_tools
from vlagent.types import ImageRef, Observation, Sample, Trajectory, Turn


class RewriteError(Exception):
    """An episode that cannot be written as wanted; the message is the reason in a word or two."""


@dataclass(frozen=True)
class Style:
    """How the messages of a run are rebuilt."""

    agent: AgentConfig
    """The run's own."""
    pixels: PixelLimits
    """Those of the model that is trained."""
    specials: tuple[str, ...] = ()
    """The tokenizer's special tokens, broken in outside text as they are in sampling."""
    dialect: str | None = None
    """Write turns and results anew in this dialect; None leaves turns as they were written."""


def conversation(sample: Sample, trajectory: Trajectory, style: Style) -> list[Message]:
    """Every message up to the last turn. Raises `RewriteError` where that is not possible."""
    dialect = _dialect(trajectory, style)
    system = _system_prompt(sample, trajectory, style, dialect)
    messages = [Message("system", (TextPart(system),))] if system else []
    messages.append(_question(sample, trajectory, style, dialect))
    kinds: list[ImageKind] = ["input"] * len(sample.images)
    for index, turn in enumerate(trajectory.turns):
        messages.append(_assistant(turn, kinds, style, dialect))
        if index == len(trajectory.turns) - 1:
            break
        if turn.observation is None:
            raise RewriteError("a turn without its observation")
        seen, notice = _without_notice(turn.observation)
        shown = _parts(seen.images, style)
        messages += dialect.observation(seen, turn.call, shown, kinds, turn.native_id, notice)
        kinds += [new_kind(turn.call)] * len(shown)
    return messages


def _dialect(trajectory: Trajectory, style: Style) -> Dialect:
    dialect = get_dialect(style.dialect or trajectory.dialect)
    if dialect.native:
        raise RewriteError(f"native calls of {dialect.name}: name a text dialect to write them in")
    return replace(dialect, specials=(*dialect.specials, *style.specials))


def _system_prompt(sample: Sample, trajectory: Trajectory, style: Style, dialect: Dialect) -> str:
    if style.dialect is None:
        return trajectory.system_prompt
    tools = make_tools(style.agent.tools) if trajectory.workflow == "agent" else {}
    specs = [ToolSpec(tool.name, tool.description, tool.arguments.model_json_schema()) for tool in tools.values()]
    manifest = sample.system_prompt if tools else None
    return dialect.system_prompt(specs, style.agent.prompts, style.agent.max_turns if tools else 1, manifest)


def _question(sample: Sample, trajectory: Trajectory, style: Style, dialect: Dialect) -> Message:
    """The first user message: of what it may have held, what gives the text that the model was shown."""
    images = _parts(sample.images, style)
    found = "\n\n".join(seen.text for seen in trajectory.context if seen.fault is None and seen.text)
    contexts = [found, CONTEXT_TOO_LONG] if found else [""]
    question, instruction = scrub(sample.question), scrub(sample.instruction)
    prompts = style.agent.prompts
    made = [dialect.question(question, images, prompts, context, instruction) for context in contexts]
    same = [message for message in made if message.text == trajectory.prompt]
    if not same and style.dialect is None and any(turn.tokens for turn in trajectory.turns):
        raise RewriteError("another question than the one that was sampled for")
    return (same or made)[0]


def _assistant(turn: Turn, kinds: Sequence[ImageKind], style: Style, dialect: Dialect) -> Message:
    if style.dialect is None:
        return dialect.said(ChatReply(turn.text, turn.finish_reason, tokens=turn.tokens))
    if turn.error is not None or turn.edited_by is not None:
        raise RewriteError("a turn that cannot be written in another dialect")
    return dialect.assistant(turn, kinds)


def _parts(images: Sequence[ImageRef], style: Style) -> list[ImagePart]:
    return [ImagePart(ref, fit(ref.width, ref.height, style.pixels)) for ref in images]


def _without_notice(observation: Observation) -> tuple[Observation, str]:
    """A record holds result and notice in one text; a message keeps the notice outside the result."""
    text = observation.text.removesuffix(f"\n{LAST_TURN}")
    if text == observation.text:
        return observation, ""
    return observation.model_copy(update={"text": text}), LAST_TURN
