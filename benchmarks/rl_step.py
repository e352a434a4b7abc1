"""Seconds of a whole step of reinforcement learning: 8 questions x 8 episodes of a search and an answer, one update.

    python -m benchmarks.rl_step [--wait 0.2] [--steps 3]

Ours is `vlagent rl`, TRL's is stock GRPOTrainer 1.16 with the same tiny model, questions, search and learning rate, one
optimizer step a rollout batch, one torch thread. The median over the steps after the first; `ratio` is TRL's over ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from accelerate import PartialState

from benchmarks import rl_policy as parts
from benchmarks.rl_rollout import GROUP, trl_trainer
from vlagent.config import make_config
from vlagent.search.base import SearchServices
from vlagent.search.text_build import index_text
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.run import RlRun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wait", type=float, default=0.2, help="seconds of a search")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    print(json.dumps(measure(args.wait, args.steps), indent=1))


def measure(wait_s: float = 0.2, steps: int = 3) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        parts.prepare(folder)
        ours, where = our_steps(folder, wait_s, steps)
        theirs = trl_steps(folder, wait_s, steps)
    return {
        "episodes": len(parts.QUESTIONS) * GROUP,
        "vlagent_s": round(ours, 2),
        "trl_s": round(theirs, 2),
        "ratio": round(theirs / ours, 2),
        "vlagent_time": where,
    }


def our_steps(folder: Path, wait_s: float, steps: int) -> tuple[float, dict[str, float]]:
    """Seconds of the median step, and where they go (those of tools and reward overlap)."""
    run = folder / "run"
    (folder / "house.txt").write_text(parts.FACT)
    index_text([folder / "house.txt"], folder / "search")
    table = {
        "run": str(run),
        "steps": steps,
        "model": {"path": str(folder / "model"), "device": "cpu", "threads": 1, "freeze": []},
        "data": {"sources": [{"data": str(parts.write_manifest(folder / "rows.jsonl"))}]},
        "rollout": {"agent": parts.AGENT.model_dump(mode="json"), "search": str(folder / "search")},
        "engine": {"max_batch": 64, "max_context": 1024},
        "algorithm": {"advantage": "grpo", "beta": 0.0},
        "batch": {"prompts": len(parts.QUESTIONS), "samples": GROUP, "every_row": True},
        "optim": {"lr": 1e-6},
        "save": {"every": 10_000},
    }
    whole = RlRun(make_config(RlConfig, table), PartialState(cpu=True))
    whole.episodes.rollouts.search = SearchServices(text=parts.SlowShelf(wait_s))
    try:
        whole.train()
    finally:
        whole.close()
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = [name for name in lines[-1] if name.startswith("time/")]
    where = {name: round(statistics.median(line[name] for line in lines[1:]), 3) for name in names}
    return where["time/rollout_s"] + where["time/rows_s"] + where["time/update_s"], where


def trl_steps(folder: Path, wait_s: float, steps: int) -> float:
    """Seconds of the median step of TRL's trainer."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.ends: list[float] = []

        def on_step_end(self, *_: Any, **__: Any) -> None:
            self.ends.append(time.perf_counter())

    clock = Clock()
    trainer = trl_trainer(parts.open_policy(folder / "model"), folder, wait_s, [], steps)
    trainer.add_callback(clock)
    trainer.train()
    return statistics.median(b - a for a, b in zip(clock.ends, clock.ends[1:], strict=False))


if __name__ == "__main__":
    main()
