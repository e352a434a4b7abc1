"""The sharegpt form as LLaMA-Factory's data/README.md documents it (github.com/hiyouga/LLaMA-Factory), as checks.

What is quoted: the description of `dataset_info.json`, "the human and observation should appear in odd positions, while
gpt and function should appear in even positions", "The number of images should be identical to the <image> tokens in
the conversations", and the defaults of tags (from, value, human, gpt, observation, function_call, system).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

TEXT = {"type": "string"}
COLUMNS = ("messages", "system", "tools", "images", "videos", "audios", "chosen", "rejected", "kto_tag")
TAGS = ("role_tag", "content_tag", "user_tag", "assistant_tag", "observation_tag", "function_tag", "system_tag")
INFO = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["file_name", "formatting", "columns"],
        "additionalProperties": False,
        "properties": {
            "file_name": TEXT,
            "formatting": {"const": "sharegpt"},
            "columns": {
                "type": "object",
                "required": ["messages"],
                "additionalProperties": False,
                "properties": dict.fromkeys(COLUMNS, TEXT),
            },
            "tags": {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(TAGS, TEXT)},
        },
    },
}
ROWS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["conversations"],
        "properties": {
            "conversations": {
                "type": "array",
                "minItems": 2,
                "items": {
                    "type": "object",
                    "required": ["from", "value"],
                    "additionalProperties": False,
                    "properties": {
                        "from": {"enum": ["human", "gpt", "observation", "function_call"]},
                        "value": TEXT,
                    },
                },
            },
            "system": TEXT,
            "images": {"type": "array", "items": TEXT},
        },
    },
}


def problems(folder: Path) -> list[str]:
    """Everything that LLaMA-Factory's documentation would not accept of a `dataset_dir`."""
    info = json.loads((folder / "dataset_info.json").read_text())
    found = [error.message for error in Draft202012Validator(INFO).iter_errors(info)]
    for entry in info.values():
        rows = json.loads((folder / entry["file_name"]).read_text())
        found += [error.message for error in Draft202012Validator(ROWS).iter_errors(rows)]
        used = set(entry["columns"].values())
        for number, row in enumerate(rows):
            found += [f"row {number}: no column {name}" for name in used - set(row)]
            found += [f"row {number}: {what}" for what in _of_row(row, folder)]
    return found


def _of_row(row: dict[str, Any], folder: Path) -> list[str]:
    turns, images = row["conversations"], row.get("images", [])
    found = []
    for place, turn in enumerate(turns):
        if turn["from"] not in (("human", "observation"), ("gpt", "function_call"))[place % 2]:
            found.append(f"{turn['from']} at position {place + 1}")
    if len(turns) % 2:
        found.append("it does not end with the model's turn")
    slots = sum(turn["value"].count("<image>") for turn in turns)
    if slots != len(images):
        found.append(f"{slots} <image> and {len(images)} images")
    return found + [f"{path} is not there" for path in images if not (folder / path).is_file()]
