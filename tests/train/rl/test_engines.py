from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.rl.plays import AGENT, questions, rollouts
from vlagent.chat.tokens import TokenParams
from vlagent.config import make_config
from vlagent.errors import TransientError, UserError
from vlagent.model.load import Policy, load_policy
from vlagent.model.local_chat import LocalChat
from vlagent.train.rl.engines import EngineConfig, open_engine
from vlagent.types import Outcome

GREEDY = TokenParams(0.0, max_tokens=12, key=(0,))


def test_the_engine_in_this_process_samples_from_the_new_weights_after_a_push(tiny: Path) -> None:
    policy = load_policy(tiny)

    async def run() -> list[list[int]]:
        engine = open_engine(EngineConfig(max_batch=4, max_context=256), policy)
        prompt = policy.processor.vocabulary
        ids = torch.tensor(prompt.encode("what does the sign in the picture say, and who owns it?")).numpy()
        found = [(await engine.generate(ids, [], GREEDY)).ids.tolist()]
        with torch.no_grad():
            for weight in policy.model.parameters():
                weight.add_(0.05 * torch.randn_like(weight))
        await engine.push(policy)
        found.append((await engine.generate(ids, [], GREEDY)).ids.tolist())
        await engine.aclose()
        fresh = open_engine(EngineConfig(max_batch=4, max_context=256), policy)
        found.append((await fresh.generate(ids, [], GREEDY)).ids.tolist())
        await fresh.aclose()
        return found

    torch.manual_seed(0)
    before, after, fresh = asyncio.run(run())
    assert after == fresh != before


def test_the_engine_in_this_process_refuses_the_weights_of_another_model(tiny: Path) -> None:
    policy, other = load_policy(tiny), load_policy(tiny)

    async def run() -> None:
        engine = open_engine(EngineConfig(), policy)
        await engine.push(other)

    with pytest.raises(ValueError, match="the model that it was opened with"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"kind": "vllm", "model": "m"}, r"engine\.base_url is needed for vllm"),
        ({"kind": "vllm", "base_url": "http://x:1"}, r"engine\.model is needed"),
        ({"kind": "sglang"}, r"engine\.base_url is needed for sglang"),
        ({"kind": "other"}, "kind = 'other'"),
    ],
)
def test_a_server_has_to_be_named(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_config(EngineConfig, table)


SERVERS: list[dict[str, Any]] = [
    {"kind": "vllm", "model": "m", "sync": False},
    {"kind": "sglang", "sync": False},
]


@pytest.mark.parametrize("table", SERVERS)
def test_a_server_that_is_not_there_fails_the_episodes(tmp_path: Path, tiny: Path, table: dict[str, Any]) -> None:
    policy = load_policy(tiny)
    config = make_config(EngineConfig, {"base_url": "http://127.0.0.1:9", "attempts": 1, **table})

    async def run() -> list[Any]:
        engine = open_engine(config, policy)
        await engine.push(policy)
        chat = LocalChat("policy", policy.processor.renderer, engine)
        groups = await rollouts(tmp_path).collect(0, chat, questions(tmp_path), 2, 7)
        await engine.aclose()
        return [row for group in groups for row in group.rows]

    rows = asyncio.run(run())
    assert {row.outcome for row in rows} == {Outcome.FAILED}
    assert "cannot connect" in rows[0].why
    assert AGENT.max_turns == 4


def test_weights_for_sglang_are_written_before_the_server_is_told(tmp_path: Path, tiny: Path) -> None:
    policy = load_policy(tiny)
    table = {"kind": "sglang", "base_url": "http://127.0.0.1:9", "attempts": 1}
    with pytest.raises(TransientError, match="SGLang server at 127"):
        asyncio.run(_pushed(make_config(EngineConfig, table), policy, tmp_path))
    assert (tmp_path / "weights" / "model.safetensors").is_file()
    named = make_config(EngineConfig, {**table, "sync_folder": str(tmp_path / "shared")})
    with pytest.raises(TransientError):
        asyncio.run(_pushed(named, policy, tmp_path))
    assert (tmp_path / "shared" / "model.safetensors").is_file()


async def _pushed(config: EngineConfig, policy: Policy, run: Path) -> None:
    engine = open_engine(config, policy, run)
    try:
        await engine.push(policy)
    finally:
        await engine.aclose()


def test_the_weight_transfer_to_vllm_says_what_it_needs(tiny: Path) -> None:
    policy = load_policy(tiny)
    table = {"kind": "vllm", "model": "m", "base_url": "http://127.0.0.1:9"}
    with pytest.raises(UserError, match=r"needs vLLM in this environment too; .*engine\.sync = false"):
        asyncio.run(_pushed(make_config(EngineConfig, table), policy, Path()))
