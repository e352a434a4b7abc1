"""FVQA-test (MMSearch-R1, arXiv 2506.20670): 1,800 factual questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlagent.bench.suites.base import Layout, Row, as_list, common, need, picture_in, shards


def rows(path: Path) -> Iterator[Row]:
    """The rows of `fvqa_test.parquet`.

    `data_id`, `prompt` ([{role, content}]), `images` ([{bytes}]), `reward_model` {ground_truth, candidate_answers (a
    JSON list as text), style}, `category` (search_free, search_required). The pickled image searches beside it are not
    read: a pickle can run programs.

    Layout read from: the viewer of huggingface.co/datasets/lmms-lab/FVQA (of its train file; the test
    file itself was not seen)
    """
    for row in shards(path):
        reward: dict[str, Any] = need(row, "reward_model", path) or {}
        asked = [str(message["content"]) for message in need(row, "prompt", path) if message.get("role") == "user"]
        plain = {key: value for key, value in row.items() if key != "reward_model"}
        yield common(
            plain,
            id=row.get("data_id"),
            question="\n".join(asked),
            pictures=[picture_in(path, cell) or "" for cell in row.get("images") or []],
            answers=[reward.get("ground_truth"), *as_list(reward.get("candidate_answers"))],
        )


LAYOUTS = (Layout("parquet", ("fvqa_test.parquet", "fvqa_test*.parquet", "data/test-*.parquet"), rows),)
