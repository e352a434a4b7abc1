"""A tiny model that has learnt one search and one answer by heart, for ours and for TRL's way of writing a call.

Both sides of a benchmark play it at temperature 1: every episode is a search and an answer (nearly), whoever runs it.
Prompts are text, about 100 tokens on either side: fixed words of both prompts are single tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from trl.chat_template_utils import qwen3_vl_chat_template

from vlagent.agent.config import AgentConfig
from vlagent.agent.conversation import Style
from vlagent.agent.loop import Agent, run_agent
from vlagent.chat.base import Sampling
from vlagent.chat.scripted import Scripted
from vlagent.files import append_jsonl, write_json
from vlagent.model.load import Policy, load_policy
from vlagent.model.logprobs import ScoredRow, collate, token_logprobs
from vlagent.model.tiny import PROTOCOL_PIECES, TinySpec, make_policy
from vlagent.render.sizing import LIMITS
from vlagent.search.base import SearchServices, TextQuery
from vlagent.tools.registry import make_tools
from vlagent.train.config import SourceConfig
from vlagent.train.rows import make_row
from vlagent.types import Hit, Sample, Source

QUESTIONS = tuple(f"When was house {n} founded?" for n in range(8))
FACT = "House was founded in 2015."
SYSTEM = "Answer the question. <tools>text_search</tools>"
AGENT = AgentConfig(
    pixels=LIMITS["tiny"],
    tools=("text_search",),
    max_turns=3,
    max_tokens_turn=64,
    max_tokens_total=1024,
    sampling=Sampling(temperature=1.0),
    warn_last_turn=False,
)
CALL = '<tool_call>\n{"name": "text_search", "arguments": {"query": "house"}}\n</tool_call>'
LINES = (f"<think>search</think>\n{CALL}", "<think>found</think>\n<answer>2015</answer>")
PIECES = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function "
    "signatures within <tools></tools> XML tags:\n<tools>",
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML "
    'tags:\n<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>',
    '{"type": "function", "function": {"name": "text_search", "description": ',
    '"parameters": {"type": "object", "properties": {"query": {"type": "string", "description": ',
    '"required": ["query"]}',
    " was founded",
    "When was house ",
)
STEPS = 240


@dataclass
class SlowShelf:
    """A text search that takes its time, as a web search does."""

    wait_s: float
    asked: int = 0

    async def search(self, query: TextQuery) -> list[Hit]:  # noqa: ARG002
        self.asked += 1
        await asyncio.sleep(self.wait_s)
        return [Hit(source=Source(title="House", file="house.txt"), text=FACT)]


def slow_tool(wait_s: float, asked: list[str]) -> Callable[[str], str]:
    """The same for TRL, which takes tools as functions."""

    def text_search(query: str) -> str:
        """Search documents.

        Args:
            query: What to look for.
        """
        asked.append(query)
        time.sleep(wait_s)
        return FACT

    return text_search


def samples() -> list[Sample]:
    """One a question."""
    return [
        Sample(id=f"q{n}", source="houses", question=question, answers=("2015",), system_prompt=SYSTEM)
        for n, question in enumerate(QUESTIONS)
    ]


def write_manifest(path: Path) -> Path:
    """The same questions as rows of a data set."""
    for n, question in enumerate(QUESTIONS):
        prompt = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
        append_jsonl(path, {"id": f"q{n}", "prompt": prompt, "reward_model": {"ground_truth": "2015"}})
    return path


def trl_prompt(question: str) -> list[dict[str, Any]]:
    """The same question for TRL."""
    return [{"role": "user", "content": question}]


def trl_tokenizer(policy: Policy) -> Any:
    """With the chat template of Qwen3-VL as TRL ships it, so that TRL knows how calls are written."""
    tokenizer = policy.processor.hf.tokenizer
    tokenizer.chat_template = qwen3_vl_chat_template
    return tokenizer


def prepare(folder: Path) -> Path:
    """The checkpoint; about a minute on one core."""
    torch.manual_seed(0)
    policy = make_policy(TinySpec(pieces=(*PROTOCOL_PIECES, *PIECES)))
    rows = [*_our_rows(policy), *_their_rows(policy)]
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=2e-3)
    policy.model.train()
    order = np.random.default_rng(0)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * min(1.0, step / 20) * (1 - 0.9 * step / STEPS)
        batch = collate([rows[i] for i in order.choice(len(rows), 8, replace=False)], policy.processor)
        loss = -token_logprobs(policy.model, batch, policy.processor.vocabulary.banned).sum() / batch.own.sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    policy.model.eval()
    policy.save(folder / "model")
    write_json(folder / "learnt.json", {"loss": loss.item()})
    return folder / "model"


def open_policy(folder: Path) -> Policy:
    """The checkpoint on one thread."""
    torch.set_num_threads(1)
    return load_policy(folder)


def _our_rows(policy: Policy) -> list[ScoredRow]:
    tools, search = make_tools(AGENT.tools), SearchServices(text=SlowShelf(0.0))
    renderer = policy.processor.renderer
    style = Style(AGENT, AGENT.pixels, renderer.vocabulary.special_tokens)
    rows = []
    for sample in samples():
        agent = Agent(Scripted(list(LINES)), AGENT, tools, search)
        played = asyncio.run(run_agent(agent, sample))
        row = make_row(sample, played, style, renderer, SourceConfig(run=""))
        rows.append(ScoredRow(row.ids, row.mask, []))
    return rows


def _their_rows(policy: Policy) -> list[ScoredRow]:
    """A conversation in TRL's template; the assistant's words and its turn ends are learnt."""
    tokenizer = trl_tokenizer(policy)
    tool = slow_tool(0.0, [])
    function = {"name": "text_search", "arguments": {"query": "house"}}
    rows = []
    for question in QUESTIONS:
        messages: list[dict[str, Any]] = [
            *trl_prompt(question),
            {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]},
            {"role": "tool", "name": "text_search", "content": FACT},
            {"role": "assistant", "content": "2015"},
        ]
        text = tokenizer.apply_chat_template(messages, tools=[tool], tokenize=False)
        ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"])
        rows.append(ScoredRow(ids, _assistant_tokens(ids, tokenizer), []))
    return rows


def _assistant_tokens(ids: np.ndarray[Any, Any], tokenizer: Any) -> np.ndarray[Any, Any]:
    """True from after `<|im_start|>assistant\\n` to `<|im_end|>`."""
    start = tokenizer("<|im_start|>assistant\n", add_special_tokens=False)["input_ids"]
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    own, inside = np.zeros(len(ids), np.bool_), False
    for at in range(len(ids)):
        own[at] = inside
        inside = (inside and ids[at] != end) or ids[max(0, at - len(start) + 1) : at + 1].tolist() == start
    return own
