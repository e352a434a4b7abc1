"""VisualProbe and DeepEyes-4K as Mini-o3 (arXiv 2509.07969) publishes them: `train.json`, a list of rows.

`images` ([path]), `doc_id`, `problem` (with `<image>`), `solution`, `data_source`. Paths begin with the name of the
set's folder (`VisualProbe_train/data/1.jpg`); the files lie in the folder of `train.json`.

Layout read from: the demo guide in the forks of github.com/Mini-o3/Mini-o3 and public converters of
huggingface.co/datasets/Mini-o3/VisualProbe_train. The files themselves were not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

TAKEN = frozenset({"images", "doc_id", "problem", "solution"})


def is_mini_o3(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this layout."""
    return "problem" in row and "solution" in row and "prompt" not in row


def as_row(row: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """The same question in the common row layout; its other columns go along."""
    images = row.get("images") or []
    paths = [images] if isinstance(images, str) else list(images)
    return {
        **{key: value for key, value in row.items() if key not in TAKEN},
        "id": row.get("doc_id"),
        "prompt": [{"role": "user", "content": str(row["problem"])}],
        "image": [below(root, path) for path in paths],
        "reward_model": {"ground_truth": row["solution"]},
    }


def below(root: Path, path: Any) -> Any:
    """The path as written, or without its first folder where only that one is there."""
    if not isinstance(path, str) or (root / path).is_file():
        return path
    shorter = path.partition("/")[2]
    return shorter if shorter and (root / shorter).is_file() else path
