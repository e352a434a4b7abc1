"""Writes small data sets in the published layouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image


def write_picture(path: Path, size: tuple[int, int] = (64, 48)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path)
    return path


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "r-one",
        "prompt": [{"role": "user", "content": "<image>\nWhich city?"}],
        "image": "a.png",
        "reward_model": {"ground_truth": "Paris"},
        **changes,
    }


def write_rows(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


def write_manifest(folder: Path, **entries: dict[str, Any]) -> Path:
    path = folder / "manifest.json"
    path.write_text(json.dumps(entries))
    return path


def entry(**changes: Any) -> dict[str, Any]:
    return {
        "root": "data",
        "annotation": "data/rows.jsonl",
        "length": 1,
        "repeat_time": 1,
        "reward_fn": ["llm_score", "format_score"],
        "unused_reward_fn": [],
        "input_template": {"name": "default", "arguments": {"system_prompt": "", "format_instruction": ""}},
        "comment": "",
        **changes,
    }
