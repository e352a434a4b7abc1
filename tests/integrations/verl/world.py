"""A tiny checkpoint, drawn questions, and a rollout server that plays scripted turns by token ids.

The server is handed what veRL's servers are handed and scores its own replies with the real model, so that
log-probabilities can be compared with those of a trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_module
from PIL import Image
from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.workers.rollout.replica import TokenOutput

from tests.agent.parts import answer, call
from tests.data.files import entry, write_manifest, write_rows
from vlagent.model.chatml import image_runs
from vlagent.model.load import PilProcessor, Policy, load_policy
from vlagent.model.logprobs import ScoredRow, collate
from vlagent.model.tiny import TinySpec, TinyText, TinyVision, make_policy

CROP = call("image_crop", bbox=[0, 0, 500, 500], image_index=0)
LENGTHS = (1024, 2048)
"""Prompt and response tokens."""
Script = Callable[[str, int], str]
"""(text of the prompt, turn) -> what the model writes."""


def save_policy(folder: Path) -> Policy:
    text = TinyText(hidden=48, layers=2, heads=2, kv_heads=1, head_dim=32, ff=64)
    vision = TinyVision(hidden=32, depth=1, heads=2, ff=32)
    make_policy(TinySpec(text=text, vision=vision), seed=1).save(folder)
    return load_policy(folder)


def write_questions(folder: Path, count: int = 3) -> str:
    """A manifest's entry of plain rows about noise pictures; question n's answer is a<n>."""
    random, rows = np.random.default_rng(5), []
    for i in range(count):
        width, height = (96, 96) if i % 2 else (160, 80)
        Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(folder / f"{i}.png")
        rows.append({"id": f"q{i}", "question": f"What is number {i}?", "answer": f"a{i}", "image": f"{i}.png"})
    write_rows(folder / "rows.jsonl", *rows)
    template = {"name": "default", "arguments": {"system_prompt": "Look. <tools>image_crop</tools>"}}
    made = entry(root=".", annotation="rows.jsonl", length=count, input_template=template)
    return f"{write_manifest(folder, drawn=made)}:drawn"


def write_loop_config(folder: Path, min_pixels: int = 4608, **rewards: Any) -> Path:
    """What the agent loop reads besides veRL's configuration."""
    lines = [
        f'folder = "{folder}"',
        "[rollout]",
        "tool_attempts = 1",
        "[rollout.agent]",
        'tools = ["image_crop"]',
        "max_turns = 4",
        "max_tokens_total = 2500",
        f"pixels = {{factor = 16, min_pixels = {min_pixels}, max_pixels = 9216}}",
        "[rewards]",
        *(f"{name} = {value}" for name, value in rewards.items()),
    ]
    path = folder / "loop.toml"
    path.write_text("\n".join(lines) + "\n")
    (folder / "loops.yaml").write_text(
        f"- name: vlagent\n  _target_: vlagent.integrations.verl.agent_loop.VlagentLoop\n  vlagent_config: {path}\n"
    )
    return path


def verl_config(model: Path, questions: str, folder: Path, *more: str) -> Any:
    """veRL's own configuration with the overrides that the guide names."""
    overrides = [
        f"data.train_files='{questions}'",
        f"data.val_files='{questions}'",
        "data.custom_cls.path=pkg://vlagent.integrations.verl.dataset",
        "data.custom_cls.name=ManifestDataset",
        f"data.max_prompt_length={LENGTHS[0]}",
        f"data.max_response_length={LENGTHS[1]}",
        f"actor_rollout_ref.model.path={model}",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.agent.default_agent_loop=vlagent",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={folder}/loops.yaml",
        "algorithm.adv_estimator=bn_gspo",
        "reward.reward_manager.source=importlib",
        "reward.reward_manager.module.path=pkg://vlagent.integrations.verl.rewards",
        "reward.reward_manager.name=TrajectoryReward",
        *more,
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=overrides)


class ScriptedServer:
    """In the place of veRL's server manager; strict about what it is sent. Hydra would take a dataclass apart."""

    def __init__(self, policy: Policy, script: Script) -> None:
        self.policy = policy
        self.script = script
        self.requests: list[dict[str, Any]] = []
        self.replies: list[list[int]] = []
        self.turns: dict[str, int] = {}

    async def generate(
        self,
        request_id: str,
        *,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: list[Any] | None = None,
    ) -> TokenOutput:
        self._check(prompt_ids, image_data or [])
        self.requests.append({"ids": prompt_ids, "params": dict(sampling_params), "id": request_id})
        turn = self.turns.get(request_id, 0)
        self.turns[request_id] = turn + 1
        vocabulary = self.policy.processor.vocabulary
        ids = [*vocabulary.encode(self.script(vocabulary.decode(prompt_ids), turn)), vocabulary.eos[0]]
        sampling_params.clear()
        self.replies.append(ids)
        return TokenOutput(
            token_ids=ids, log_probs=self._score(prompt_ids, ids, image_data or []), stop_reason="completed"
        )

    def _check(self, ids: list[int], shown: Sequence[Any]) -> None:
        """As a server: every run of placeholders has its picture, at its size."""
        assert all(type(i) is int for i in ids)
        processor = self.policy.processor
        runs = image_runs(np.asarray(ids), processor.vocabulary.ids["<|image_pad|>"])
        assert [stop - start for start, stop in runs] == [processor.visual_tokens(image.size) for image in shown]
        assert all(image.mode == "RGB" for image in shown)

    def _score(self, prompt: list[int], ids: list[int], shown: Sequence[Any]) -> list[float]:
        pixels = [self.policy.processor.pixels(image) for image in shown]
        row = ScoredRow(np.array([*prompt, *ids]), np.zeros(len(prompt) + len(ids), np.bool_), pixels)
        batch = collate([row], self.policy.processor)
        given = (batch.input_ids, batch.position_ids, batch.pixel_values, batch.image_grid_thw)
        return forward_logprobs(self.policy, *given)[len(prompt) - 1 :].tolist()


def forward_logprobs(policy: Policy, ids: Any, positions: Any, pixels: Any, grid: Any) -> Any:
    """[L-1]: of each id [1, L] after the first given those before it, by the model's plain forward."""
    with torch.no_grad():
        logits = policy.model(input_ids=ids, position_ids=positions, pixel_values=pixels, image_grid_thw=grid).logits[0]
    return torch.log_softmax(logits.float(), -1)[:-1].gather(-1, ids[0, 1:, None])[:, 0]


def crop_then_answer(prompt: str, turn: int) -> str:
    """Zooms as often as the question's number says, then answers rightly."""
    number = int(prompt.split("What is number ")[1][0])
    return CROP if turn < number else answer(f"a{number}")


class StockLike(PilProcessor):
    """The stock processor, which needs torchvision, as far as veRL uses it."""

    def __init__(self, image_processor: Any = None, tokenizer: Any = None, chat_template: str | None = None) -> None:
        super().__init__(image_processor, tokenizer, chat_template)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made["mm_token_type_ids"] = torch.zeros_like(made["input_ids"])
        return made


def stock_processor(policy: Policy) -> StockLike:
    """Bound to its model as veRL binds it."""
    processor = StockLike(policy.processor.hf.image_processor, policy.processor.hf.tokenizer)
    processor.get_rope_index = partial(type(policy.model.model).get_rope_index, policy.model.model)
    processor.image_token_id = policy.processor.vocabulary.ids["<|image_pad|>"]
    processor.video_token_id = policy.processor.vocabulary.ids["<|video_pad|>"]
    return processor


def make_worker(config: Any, server: ScriptedServer, kind: Any = AgentLoopWorker) -> Any:
    """veRL's worker with the tiny model's processor."""
    worker = kind(config, server)
    worker.processor = stock_processor(server.policy)
    return worker
