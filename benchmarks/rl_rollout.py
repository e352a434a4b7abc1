"""Seconds of a rollout: 64 episodes of a search and an answer, ours and stock TRL 1.16's, same tiny model, one run.

    python -m benchmarks.rl_rollout [--wait 0.5] [--repeats 2]

A search takes `--wait` seconds on both sides. TRL runs tools one after the other over the episodes of a batch, and all
episodes turn by turn; ours waits for all of them at once. One torch thread for both; repeats alternate. `ratio` is
TRL's best time over our best.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import rl_policy as parts
from vlagent.model.load import Policy
from vlagent.model.local_chat import LocalChat
from vlagent.search.base import SearchServices
from vlagent.train.rl.engines import EngineConfig, open_engine
from vlagent.train.rl.rewards import RewardConfig
from vlagent.train.rl.rollout import RolloutConfig, Rollouts

GROUP = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wait", type=float, default=0.5, help="seconds of a search")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    print(json.dumps(measure(args.wait, args.repeats), indent=1))


def measure(wait_s: float = 0.5, repeats: int = 2) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        policy = parts.open_policy(parts.prepare(folder))
        ours, theirs, calls = [], [], {}
        cpu = [0.0, 0.0]
        for repeat in range(repeats):
            began = time.process_time()
            seconds, calls["vlagent"] = our_seconds(policy, folder, wait_s, repeat)
            ours.append(seconds)
            between = time.process_time()
            seconds, calls["trl"] = trl_seconds(policy, folder, wait_s)
            theirs.append(seconds)
            cpu = [between - began, time.process_time() - between]
    return {
        "episodes": len(parts.QUESTIONS) * GROUP,
        "searches": calls,
        "cpu_s_of_last": {"vlagent": round(cpu[0], 2), "trl": round(cpu[1], 2)},
        "vlagent_s": round(min(ours), 2),
        "trl_s": round(min(theirs), 2),
        "ratio": round(min(theirs) / min(ours), 2),
    }


def our_seconds(policy: Policy, folder: Path, wait_s: float, repeat: int) -> tuple[float, int]:
    """Wall time of one step's episodes with their rewards, and how many searches there were."""
    shelf = parts.SlowShelf(wait_s)
    rollouts = Rollouts(
        RolloutConfig(agent=parts.AGENT), RewardConfig(), SearchServices(text=shelf), None, folder / "run"
    )

    async def play() -> float:
        engine = open_engine(EngineConfig(max_batch=64, max_context=1024), policy)
        chat = LocalChat(policy.name, policy.processor.renderer, engine)
        started = time.perf_counter()
        await rollouts.collect(repeat, chat, parts.samples(), GROUP, 0)
        seconds = time.perf_counter() - started
        await engine.aclose()
        return seconds

    return asyncio.run(play()), shelf.asked


def trl_seconds(policy: Policy, folder: Path, wait_s: float) -> tuple[float, int]:
    """Wall time of TRL's own rollout and rewards of the same questions."""
    asked: list[str] = []
    trainer = trl_trainer(policy, folder, wait_s, asked, steps=1)
    inputs = [{"prompt": parts.trl_prompt(question)} for question in parts.QUESTIONS for _ in range(GROUP)]
    trainer.model.eval()
    started = time.perf_counter()
    trainer._generate_and_score_completions(inputs)
    return time.perf_counter() - started, len(asked)


def trl_trainer(policy: Policy, folder: Path, wait_s: float, asked: list[str], steps: int) -> Any:
    """TRL's GRPOTrainer with the tool, the questions and a reward by the answer; nothing of it is ours."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    def right(completions: list[Any], **_: Any) -> list[float]:
        return [float("2015" in str(messages[-1].get("content"))) for messages in completions]

    rows = [{"prompt": parts.trl_prompt(question)} for question in parts.QUESTIONS]
    # A model of pictures asked without any: TRL looks for the limit at the top.
    policy.model.config.max_position_embeddings = policy.model.config.text_config.max_position_embeddings
    settings = GRPOConfig(
        output_dir=str(folder / "trl"),
        max_steps=steps,
        per_device_train_batch_size=len(rows) * GROUP,
        num_generations=GROUP,
        max_completion_length=256,
        temperature=1.0,
        learning_rate=1e-6,
        beta=0.0,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
        seed=0,
    )
    return GRPOTrainer(
        model=policy.model,
        reward_funcs=right,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=parts.trl_tokenizer(policy),
        tools=[parts.slow_tool(wait_s, asked)],
    )


if __name__ == "__main__":
    main()
