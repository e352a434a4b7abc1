r"""The warm-start episodes of Pixel-Reasoner (arXiv 2505.15966), read as questions with their answers.

`qid`, `message_list` ([{role, content: [{text} | {image} | {video}]}]) of an episode with the calls `crop_image` and
`select_frames`. The question is the first user message without its guidelines, the answer the last `\boxed{}`; what
lies between is another tool set's and is not read. Questions about videos are left out: the agent looks at pictures.

Layout read from: instruction_tuning/sft_tooltrainer.py of github.com/TIGER-AI-Lab/Pixel-Reasoner, the card of
huggingface.co/datasets/TIGER-Lab/PixelReasoner-SFT-Data and public converters of it. The files were not seen.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vlagent.errors import UserError

GUIDELINES = re.compile(r"\s*Guidelines: Understand the given visual information.*\Z", re.DOTALL)
BOXED = "\\boxed{"


def is_pixel_reasoner(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this layout."""
    return "message_list" in row and "prompt" not in row


def as_row(row: Mapping[str, Any], root: Path) -> dict[str, Any] | None:
    """The question in the common row layout; None of a video. Raises `UserError` where the messages are none."""
    messages = row["message_list"]
    if not isinstance(messages, Sequence) or not all(isinstance(each, Mapping) for each in messages):
        raise UserError(f"{root}: message_list of {row.get('qid')!r}: a list of messages is expected")
    first = next((each for each in messages if each.get("role") == "user"), None)
    if first is None:
        raise UserError(f"{root}: message_list of {row.get('qid')!r}: it has no user message")
    asked = _parts(first)
    if any("video" in part for part in asked):
        return None
    said = [_text(_parts(each)) for each in messages if each.get("role") == "assistant"]
    answer = row.get("answer") or boxed(said[-1] if said else "")
    kept = {key: value for key, value in row.items() if key not in ("message_list", "question", "answer", "qid")}
    return {
        **kept,
        "id": row.get("qid"),
        "prompt": [{"role": "user", "content": str(row.get("question") or GUIDELINES.sub("", _text(asked)).strip())}],
        "image": [_place(root, str(part["image"])) for part in asked if part.get("image")],
        "reward_model": {"ground_truth": [answer] if answer else []},
    }


def boxed(text: str) -> str:
    r"""What stands in the last `\boxed{...}`, braces in braces included; empty where there is none."""
    start = text.rfind(BOXED)
    if start < 0:
        return ""
    depth, begin = 1, start + len(BOXED)
    for at in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return re.sub(r"^\\text\{(.*)\}$", r"\1", text[begin:at].strip())
    return text[begin:].strip()


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts that hold something: tables made of such rows fill absent keys with null."""
    content = message.get("content")
    if isinstance(content, str):
        return [{"text": content}]
    return [{key: value for key, value in part.items() if value is not None} for part in content or []]


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(str(part["text"]) for part in parts if part.get("text")).replace("<image>", "").strip()


def _place(root: Path, path: str) -> str:
    if not (root / path).is_file() and (root / "images" / path).is_file():
        return f"images/{path}"
    return path
