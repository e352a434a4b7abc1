"""Published settings of whole runs (algorithms.py of each paper: see `algorithms.config.ALGORITHM_PRESETS`).

What a configuration says itself wins over its preset.
"""

from __future__ import annotations

from typing import Any

from vlagent.train.rl.algorithms.config import ALGORITHM_PRESETS

_PAPER_AGENT = {"max_turns": 10, "max_tokens_turn": 8192, "max_tokens_total": 32768, "sampling": {"temperature": 1.0}}
_FROZEN = {"freeze": ["vision", "projector"]}

PRESETS: dict[str, dict[str, Any]] = {
    "mars-paper": {
        "algorithm": ALGORITHM_PRESETS["mars-paper"],
        "optim": {"lr": 1e-6},
        "batch": {"prompts": 128, "samples": 8},
        "rollout": {"agent": _PAPER_AGENT},
        "rewards": {"accuracy": 1.0, "format": 0.5, "judge": {"model": "Qwen/Qwen2.5-VL-72B-Instruct"}},
        "model": _FROZEN,
    },
    "mars-released-script": {
        "seed": 3407,
        "algorithm": ALGORITHM_PRESETS["mars-released-script"],
        "optim": {"lr": 1e-5},
        "batch": {"prompts": 128, "samples": 8},
        "rollout": {
            "agent": {
                "max_turns": 10,
                "max_tokens_turn": 16384,
                "max_tokens_total": 32768,
                "sampling": {"temperature": 1.0, "presence_penalty": 1.5},
            }
        },
        "rewards": {"accuracy": 1.0, "format": 0.5, "judge": {"model": "Qwen/Qwen3-VL-32B-Instruct"}},
        "model": _FROZEN,
    },
    "gspo-paper": {
        "algorithm": ALGORITHM_PRESETS["gspo-paper"],
        "optim": {"lr": 1e-6},
        "batch": {"prompts": 128, "samples": 8, "minibatches": 4},
        "rollout": {"agent": _PAPER_AGENT},
        "rewards": {"accuracy": 1.0, "format": 0.5},
        "model": _FROZEN,
    },
}
"""SenseNova-MARS (arXiv 2512.24330), the training script released with it, and GSPO (arXiv 2507.18071).

"Global batch size 128" is read as prompts. The script's turns have no limit of their own; of its 16384 + 16384 tokens
of prompt and response one total is left here. Learning rate and lengths of `gspo-paper` are ours.
"""
