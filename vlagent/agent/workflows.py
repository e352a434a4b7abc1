"""What `direct` and `rag` do differently from the loop: look things up before the question, and answer in one turn."""

from __future__ import annotations

import re
from dataclasses import replace

from vlagent.agent.episode import Ending, Episode
from vlagent.agent.parse import Parsed, scrub
from vlagent.chat.base import ChatReply
from vlagent.tools.base import run_tool
from vlagent.tools.text_search import MAX_QUERY
from vlagent.types import Fault, Observation, StopReason

_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_PROTOCOL_TAG = re.compile(r"</?(think|thinking|tool_call|answer)\b", re.IGNORECASE)


async def retrieve(episode: Episode) -> str | Ending:
    """The two searches of `rag`: the first image, then the question with the top title. Their texts, or the ending."""
    title = ""
    if episode.sample.images and "image_search" in episode.agent.tools:
        pictures = await _search(episode, "image_search", {"image_index": 0})
        title = _top_title(pictures)
        if ending := _too_many_faults(episode):
            return ending
    if query := _query(scrub(episode.sample.question), title):
        await _search(episode, "text_search", {"query": query})
    return _too_many_faults(episode) or "\n\n".join(
        seen.text for seen in episode.retrieved if seen.fault is None and seen.text
    )


async def _search(episode: Episode, name: str, arguments: dict[str, object]) -> Observation:
    agent, tool = episode.agent, episode.agent.tools[name]
    valid = tool.arguments.model_validate(arguments)
    observation = await run_tool(tool, valid, episode.context, agent.retry, agent.gates.tools.get(name))
    # Only the text goes into the prompt, so the pictures do not enter the context.
    episode.retrieved.append(observation.model_copy(update={"images": ()}))
    episode.world_faults = episode.world_faults + 1 if observation.fault is Fault.WORLD else 0
    return observation


def _query(question: str, title: str) -> str:
    """Both, the title whole, within what a text search takes."""
    short = " ".join(title.split())[: MAX_QUERY // 4]
    return f"{question.strip()[: MAX_QUERY - len(short) - 1]} {short}".strip()


def _top_title(observation: Observation) -> str:
    titles = [source.title for source in (*(hit.source for hit in observation.hits), *observation.sources)]
    return titles[0] if titles else ""


def _too_many_faults(episode: Episode) -> Ending | None:
    if episode.world_faults < episode.config.max_world_faults:
        return None
    return Ending(StopReason.TOOL_FAILURE, episode.retrieved[-1].text)


def plain_answer(reply: ChatReply, parsed: Parsed) -> Parsed:
    """Where nothing can be called, a reply without any action is itself the answer (a repair)."""
    text = _THOUGHT.sub("", reply.text).strip()
    if parsed.error is None or reply.finish_reason != "stop" or not text or _PROTOCOL_TAG.search(text):
        return parsed
    return replace(parsed, answer=text, error=None, repairs=(*parsed.repairs, "plain_answer"), format_ok=False)
