"""Rows made for the trainer veRL, as FVQA-train and DeepEyes-47k are published (parquet with pictures as bytes).

`prompt` ([{role, content}]), `images` ([{bytes}]), `reward_model` {ground_truth, candidate_answers (a JSON list as
text), style}, `data_id` or `extra_info` {index, question, answer}, `category`, `data_source`, `env_name`. DeepEyes
writes its own tool into system prompt and question; both are left out, since the agent brings its own.

Layout read from: the viewer of huggingface.co/datasets/lmms-lab/FVQA, and the trainers of
github.com/Visual-Agent/DeepEyes and github.com/modelscope/ms-swift that read ChenShawn/DeepEyes-Datasets-47k
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

TOOL_WORDS = re.compile(r"\s*Think first, call \*\*image_zoom_in_tool\*\*.*\Z", re.DOTALL)


def is_verl(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this layout; its columns are those of the common one, with more in them."""
    reward = row.get("reward_model")
    return "data_id" in row or "env_name" in row or (isinstance(reward, Mapping) and "candidate_answers" in reward)


def as_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same question in the common row layout."""
    reward = row.get("reward_model")
    reward = dict(reward) if isinstance(reward, Mapping) else {}
    inner = row.get("extra_info")
    inner = inner if isinstance(inner, Mapping) else {}
    given = row.get("data_id") or inner.get("index")
    kept = {key: value for key, value in row.items() if key not in ("data_id", "reward_model")}
    truths = [reward.get("ground_truth"), *_candidates(reward.get("candidate_answers"))]
    answers = dict.fromkeys(str(each).strip() for each in truths if each is not None)
    if "env_name" in row:
        kept["prompt"] = _without_tool(row["prompt"])
    return {
        **kept,
        "id": row.get("id", given),
        "reward_model": {"ground_truth": [answer for answer in answers if answer]},
    }


def _without_tool(prompt: Any) -> Any:
    """DeepEyes' messages without the system prompt and the closing words on its tool."""
    if not isinstance(prompt, list):
        return prompt
    asked = [message for message in prompt if isinstance(message, Mapping) and message.get("role") == "user"]
    return [{**message, "content": TOOL_WORDS.sub("", str(message.get("content")))} for message in asked]


def _candidates(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return []
    return list(value) if isinstance(value, list | tuple) else []
