"""A model that is right now and then, and runs of reinforcement learning on it that take a second."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.train.episodes import AGENT, SYSTEM, make_samples
from vlagent.config import make_config
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.recorded import read_groups, recorded_steps, write_groups
from vlagent.types import Outcome, Sample

ANSWERS = ("a", "b")
TIMED = ("time/", "speed/", "memory/")


def make_questions(folder: Path) -> list[Sample]:
    """Six questions with two answers between them; question n wants n mod 3 crops first in the demonstrations."""
    samples = make_samples(folder / "pictures", 6)
    return [sample.model_copy(update={"answers": (ANSWERS[i % 2],)}) for i, sample in enumerate(samples)]


def write_rows(path: Path, samples: list[Sample]) -> Path:
    """The questions as rows of a data set."""
    rows = [
        {
            "prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"<image>{sample.question}"}],
            "image": sample.images[0].path,
            "reward_model": {"ground_truth": sample.answers[0]},
        }
        for sample in samples
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def config(world: Path, run: Path, *changes: str) -> RlConfig:
    """Three steps of 6 x 6 episodes; episodes are the same to the bit whatever else runs."""
    agent = AGENT.model_dump(mode="json") | {
        "max_tokens_turn": 40,
        "max_tokens_total": 300,
        "max_turns": 3,
        "max_invalid": 1,
        "sampling": {"temperature": 1.0},
    }
    table: dict[str, Any] = {
        "run": str(run),
        "steps": 3,
        "model": {"path": str(world / "model"), "device": "cpu", "threads": 1},
        "data": {"sources": [{"data": str(world / "rows.jsonl")}]},
        "rollout": {"agent": agent},
        "engine": {"deterministic": True, "max_context": 320, "max_batch": 36},
        "algorithm": {"beta": 0.0},
        "batch": {"prompts": 6, "samples": 6, "micro_rows": 6},
        "optim": {"lr": 1e-3},
        "save": {"every": 2},
    }
    return make_config(RlConfig, table, list(changes))


def examined(world: Path, run: Path, *changes: str) -> RlConfig:
    """As `config`, at a learning rate that ruins the model, which a validation after every step sees."""
    table = config(world, run, "optim.lr=3e-2", "save.every=1").model_dump(mode="json")
    checks = {"data": str(world / "rows.jsonl"), "every": 1, "agent": table["rollout"]["agent"]}
    return make_config(RlConfig, table | {"validation": checks}, list(changes))


def graded(recorded: Path, folder: Path) -> Path:
    """Recorded steps with rewards of 1 and 0 by turns in every group, whatever the model was able to answer."""
    for step in recorded_steps(recorded):
        groups = read_groups(recorded, step)
        for group in groups:
            for i, row in enumerate(group.rows):
                assert row.reward is not None
                parts = row.reward.parts | {"accuracy": float(i % 2 == 0)}
                update = {"outcome": (Outcome.RIGHT, Outcome.WRONG)[i % 2], "degraded": False}
                group.rows[i] = row.model_copy(
                    update={**update, "reward": row.reward.model_copy(update={"parts": parts})}
                )
        write_groups(folder, step, groups)
    return folder


def metrics(run: Path) -> list[dict[str, Any]]:
    """What was measured, times aside."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith(TIMED)} for line in lines]


def steps(run: Path) -> list[dict[str, Any]]:
    """Those of the steps."""
    return [line for line in metrics(run) if "episodes" in line]


def weights(folder: Path) -> dict[str, str]:
    """Parameter -> digest of its bytes."""
    from vlagent.model.load import load_policy

    model = load_policy(folder).model
    return {n: hashlib.sha256(w.detach().numpy().tobytes()).hexdigest() for n, w in model.named_parameters()}
