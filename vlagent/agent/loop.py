"""The loop: one sample in, one trajectory out (protocol.md; SenseNova-MARS, arXiv 2512.24330, section 3)."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import nullcontext
from dataclasses import replace

from vlagent.agent.episode import LAST_TURN, Agent, Ending, Episode, Gates
from vlagent.agent.events import Observed, Wrote
from vlagent.agent.hooks import Allow, CallHook, Decision, Edit, Refuse, Stop, check_edit
from vlagent.agent.parse import Parsed, parse, scrub
from vlagent.agent.workflows import plain_answer, retrieve
from vlagent.chat.base import ChatReply, ChatRequest
from vlagent.errors import ServiceError
from vlagent.tools.base import Arguments, run_tool
from vlagent.types import Call, Fault, Observation, Sample, StopReason, Trajectory, Turn

__all__ = ["Agent", "Gates", "run_agent"]


async def run_agent(agent: Agent, sample: Sample, rollout: int = 0) -> Trajectory:
    """Play one episode to its named end.

    Nothing that a model or a service does raises: it is in the trajectory. A bug of ours or of a tool's raises, so
    does `UserError` for an edited call that does not fit its tool. Cancelled at any await, the partial trajectory
    (`stop=cancelled`) goes out as the `Ended` event, and `CancelledError` goes on.
    """
    episode = Episode.begin(agent, sample, rollout)
    try:
        ending = await _play_in_time(episode)
    except asyncio.CancelledError:
        episode.end(Ending(StopReason.CANCELLED, f"cancelled in turn {len(episode.turns)}"))
        raise
    return episode.end(ending)


async def _play_in_time(episode: Episode) -> Ending:
    limit_s = episode.config.time_limit_s
    try:
        async with asyncio.timeout(limit_s) as episode.clock:
            return await _play(episode)
    except TimeoutError:
        if episode.clock is None or not episode.clock.expired():
            raise
        return Ending(StopReason.TIME_LIMIT, f"over after {limit_s:g} s")


async def _play(episode: Episode) -> Ending:
    retrieved = ""
    if episode.config.workflow == "rag":
        found = await retrieve(episode)
        if isinstance(found, Ending):
            return found
        retrieved = found
    episode.ask(retrieved)
    while True:
        ending = await _take_turn(episode)
        if ending is not None:
            return ending


async def _take_turn(episode: Episode) -> Ending | None:
    """One turn of the model and its observation; the ending, if this was the last."""
    if episode.ledger.exhausted:
        return Ending(StopReason.TOKEN_LIMIT, episode.ledger.describe())
    cut_by_total = episode.ledger.granted < episode.config.max_tokens_turn
    try:
        reply = await _complete(episode)
    except (ServiceError, TimeoutError) as error:
        return Ending(StopReason.MODEL_FAILURE, str(error) or "the model did not answer in time")
    parsed = _read(episode, reply)
    ending = _ending_of_reply(episode, cut_by_total) or await _answer_turn(episode, parsed)
    turn = episode.turns[-1]
    if turn.observation is not None:
        episode.tell(Observed(episode.sample.id, episode.rollout, episode.index, turn))
    return ending


async def _complete(episode: Episode) -> ChatReply:
    config = episode.config
    request = ChatRequest(
        messages=tuple(episode.messages),
        sampling=config.sampling.model_copy(update={"max_tokens": episode.ledger.granted}),
        stop=episode.dialect.stop,
        tools=episode.schemas,
        key=(config.seed, episode.sample.id, episode.rollout, len(episode.turns)),
    )
    async with episode.agent.gates.model or nullcontext():
        started = time.monotonic()
        reply = await episode.agent.model.complete(request)
    return replace(reply, text=scrub(reply.text), latency_s=reply.latency_s or time.monotonic() - started)


def _read(episode: Episode, reply: ChatReply) -> Parsed:
    """Parse what the model wrote, once, and put it into the history as it was sampled."""
    parsed = parse(reply.text, reply.finish_reason, episode.dialect, episode.tools, episode.kinds, reply.calls)
    if not episode.tools:
        parsed = plain_answer(reply, parsed)
    turn = Turn(
        text=reply.text,
        think=parsed.think,
        call=parsed.call,
        answer=parsed.answer,
        error=parsed.error,
        repairs=parsed.repairs,
        format_ok=parsed.format_ok,
        finish_reason=reply.finish_reason,
        native_id=parsed.native_id,
        latency_s=reply.latency_s,
        tokens=reply.tokens,
    )
    episode.hear(turn, reply)
    episode.tell(Wrote(episode.sample.id, episode.rollout, episode.index, turn))
    if turn.error is not None and turn.finish_reason != "content_filter":
        episode.receive(Observation(text=turn.error, fault=Fault.MODEL))
    return parsed


def _ending_of_reply(episode: Episode, cut_by_total: bool) -> Ending | None:
    """Whether the episode ends with what the model wrote, before anything runs."""
    turn, config = episode.turns[-1], episode.config
    if turn.answer is not None:
        return Ending(StopReason.ANSWERED)
    if turn.finish_reason == "content_filter":
        return Ending(StopReason.MODEL_FAILURE, "the provider's content filter cut the reply")
    if turn.finish_reason == "length" and cut_by_total:
        return Ending(StopReason.TOKEN_LIMIT, episode.ledger.describe())
    if episode.invalid >= config.max_invalid:
        return Ending(StopReason.INVALID_ACTIONS, f"{episode.invalid} invalid actions in a row")
    if config.budget_usd is not None and episode.usage.cost_usd >= config.budget_usd:
        return Ending(StopReason.BUDGET_LIMIT, f"{episode.usage.cost_usd:.4f} of {config.budget_usd:.4f} US dollars")
    if len(episode.turns) >= episode.max_turns:
        return Ending(StopReason.TURN_LIMIT, f"no answer within {episode.max_turns} turns")
    return None


async def _answer_turn(episode: Episode, parsed: Parsed) -> Ending | None:
    """Run the action, unless it was invalid, and show the model what came of it."""
    if parsed.error is None:
        outcome = await _act(episode, parsed)
        if isinstance(outcome, Ending):
            return outcome
        episode.receive(outcome)
    seen = episode.turns[-1].observation
    assert seen is not None
    if episode.invalid >= episode.config.max_invalid:
        return Ending(StopReason.INVALID_ACTIONS, f"{episode.invalid} invalid actions in a row")
    if episode.world_faults >= episode.config.max_world_faults:
        return Ending(StopReason.TOOL_FAILURE, seen.text)
    last_is_next = len(episode.turns) == episode.max_turns - 1
    if not episode.show(seen, LAST_TURN if last_is_next and episode.config.warn_last_turn else ""):
        return Ending(StopReason.TOKEN_LIMIT, episode.ledger.describe())
    return None


async def _act(episode: Episode, parsed: Parsed) -> Observation | Ending:
    """Ask the hook, then run the call."""
    call, arguments = parsed.call, parsed.arguments
    assert call is not None
    assert arguments is not None
    decision = Allow() if episode.agent.hook is None else await _decide(episode, episode.agent.hook, call)
    if isinstance(decision, Stop):
        return Ending(StopReason.STOPPED_BY_USER, decision.reason)
    if isinstance(decision, Refuse):
        return Observation(text=f"The call was refused: {decision.reason}", own_words=True)
    if isinstance(decision, Edit):
        return await _run_edited(episode, decision)
    return await _run(episode, call, arguments)


async def _decide(episode: Episode, hook: CallHook, call: Call) -> Decision:
    async with episode.paused():
        return await hook(call, episode.sample, episode.index)


async def _run_edited(episode: Episode, edit: Edit) -> Observation:
    arguments = check_edit(edit, episode.tools)
    episode.turns[-1] = episode.turns[-1].model_copy(update={"call": edit.call, "edited_by": edit.by})
    observation = await _run(episode, edit.call, arguments)
    said = f"The call was changed by {edit.by} to {edit.call.name} {json.dumps(edit.call.arguments)}."
    # The model did not write this call, so nothing about it is the model's fault.
    fault = None if observation.fault is Fault.MODEL else observation.fault
    text = f"{said}\n{observation.text}"
    return observation.model_copy(update={"text": text, "own_words": True, "fault": fault})


async def _run(episode: Episode, call: Call, arguments: Arguments) -> Observation:
    agent = episode.agent
    gate = agent.gates.tools.get(call.name)
    return await run_tool(episode.tools[call.name], arguments, episode.context, agent.retry, gate)
