"""Rows and tokens a second of `vlagent sft` and of TRL's SFTTrainer: same model, rows, passes and optimizer, one run.

    python -m benchmarks.sft [--steps 12] [--rows 8] [--micro 4] [--repeats 2]

TRL gets the same pictures through a collator of ours, since its own wants torchvision. Both train every weight of a
tiny random Qwen3-VL on one thread of a CPU. Repeats alternate, so that what else runs on the machine hits both.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent, run_agent
from vlagent.agent.store import write_trajectory
from vlagent.chat.scripted import Scripted
from vlagent.config import make_config
from vlagent.files import append_jsonl, write_json
from vlagent.model.load import load_policy
from vlagent.model.tiny import make_policy
from vlagent.render.sizing import LIMITS
from vlagent.search.base import SearchServices
from vlagent.tools.registry import make_tools
from vlagent.train.batch import make_micro
from vlagent.train.config import SftConfig, SourceConfig
from vlagent.train.rows import read_rows
from vlagent.train.sft import train_sft
from vlagent.types import ImageRef, Sample, TrainRow

CROP = (
    "<think>zoom</think>\n<tool_call>\n"
    '{"name": "image_crop", "arguments": {"bbox": [200, 300, 600, 500], "image_index": 0}}\n</tool_call>'
)
AGENT = AgentConfig(pixels=LIMITS["tiny"], tools=("image_crop",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rows", type=int, default=8, help="rows of an optimizer step")
    parser.add_argument("--micro", type=int, default=4, help="rows of a forward pass")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_policy(seed=0).save(folder / "model")
        write_episodes(folder / "demos", 64)
        results: dict[str, list[float]] = {"vlagent": [], "trl": []}
        tokens = 0.0
        for repeat in range(args.repeats):
            seconds, tokens = ours(folder, repeat, args)
            results["vlagent"].append(seconds)
            results["trl"].append(theirs(folder, args))
    report(results, tokens, args.rows)


def report(results: dict[str, list[float]], tokens: float, rows: int) -> None:
    best = {name: min(seconds) for name, seconds in results.items()}
    for name, seconds in best.items():
        print(f"{name:<8}{rows / seconds:8.1f} rows/s {tokens / seconds:9.0f} tokens/s  ({seconds:.3f} s a step)")
    print(f"vlagent / trl: {best['trl'] / best['vlagent']:.2f}x")


def ours(folder: Path, repeat: int, args: argparse.Namespace) -> tuple[float, float]:
    """Seconds and tokens of the median step."""
    run = folder / f"run{repeat}"
    table: dict[str, Any] = {
        "run": str(run),
        "max_steps": args.steps,
        "epochs": 1000,
        "model": {"path": str(folder / "model"), "device": "cpu", "freeze": [], "threads": 1},
        "sources": [{"run": str(folder / "demos"), "only_right": False}],
        "batch": {"rows": args.rows, "micro_rows": args.micro},
        "save": {"every": 10_000},
    }
    train_sft(make_config(SftConfig, table))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()][1:]
    return (
        statistics.median(line["rows"] / line["rows_per_s"] for line in lines),
        statistics.median(line["tokens"] for line in lines),
    )


def theirs(folder: Path, args: argparse.Namespace) -> float:
    """Seconds of the median step of TRL's SFTTrainer."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import SFTConfig, SFTTrainer

    policy = load_policy(folder / "model")
    source = SourceConfig(run=str(folder / "demos"), only_right=False)
    rows = read_rows(source, policy.processor.renderer, policy.processor.limits, 9999).rows

    class Clock(TrainerCallback):  # type: ignore[misc]
        ends: list[float] = []  # noqa: RUF012

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    clock = Clock()
    clock.ends = []
    settings = SFTConfig(
        output_dir=str(folder / "trl"),
        max_steps=args.steps,
        per_device_train_batch_size=args.micro,
        gradient_accumulation_steps=args.rows // args.micro,
        learning_rate=1e-5,
        gradient_checkpointing=False,
        bf16=False,
        use_cpu=True,
        report_to=[],
        logging_strategy="no",
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
    )
    trainer = SFTTrainer(
        model=policy.model,
        args=settings,
        processing_class=policy.processor.hf,
        train_dataset=Dataset.from_dict({"row": list(range(len(rows)))}),
        data_collator=lambda batch: collate([rows[item["row"]] for item in batch], policy),
        callbacks=[clock],
    )
    trainer.train()
    return statistics.median(b - a for a, b in zip(clock.ends, clock.ends[1:], strict=False))


def collate(rows: Sequence[TrainRow], policy: Any) -> dict[str, Any]:
    """A batch as transformers' own trainers want it."""
    batch = make_micro(rows, policy.processor).batch
    pad = policy.processor.vocabulary.ids["<|image_pad|>"]
    mask = torch.zeros_like(batch.input_ids)
    for i, row in enumerate(rows):
        mask[i, : len(row.ids)] = 1
    return {
        "input_ids": batch.input_ids,
        "attention_mask": mask,
        "labels": batch.input_ids.masked_fill(~batch.own, -100),
        "pixel_values": batch.pixel_values,
        "image_grid_thw": batch.image_grid_thw,
        "mm_token_type_ids": (batch.input_ids == pad).int(),
    }


def write_episodes(run: Path, count: int) -> None:
    """Episodes of one to three crops over noise pictures, played through the real loop."""
    random = np.random.default_rng(0)
    samples = []
    (run / "pictures").mkdir(parents=True)
    for i in range(count):
        path = run / "pictures" / f"{i}.png"
        Image.fromarray(random.integers(0, 256, (320, 320, 3), dtype=np.uint8)).save(path)
        ref = ImageRef(path=str(path), width=320, height=320)
        prompt = "Answer the question about the photo. <tools>image_crop</tools>"
        samples.append(
            Sample(
                id=f"s{i}", source="noise", question="What is it?", images=(ref,), answers=("x",), system_prompt=prompt
            )
        )
    write_json(run / "config.json", {"agent": AGENT.model_dump(mode="json")})
    append_jsonl(run / "samples.jsonl", *samples)
    tools = make_tools(AGENT.tools)
    for i, sample in enumerate(samples):
        script = [CROP] * (1 + i % 3) + ["<think>so</think>\n<answer>x</answer>"]
        agent = Agent(Scripted(script), AGENT, tools, SearchServices())
        write_trajectory(run, asyncio.run(run_agent(agent, sample)))


if __name__ == "__main__":
    main()
