"""HR-MMSearch as published: `sample_id`, `query`, `query_image`, `ground_truth`, `difficulty`, `category`.

The cached image search may come as a side file keyed by `sample_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vlagent.data.rows import SEARCH_COLUMNS
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, read_json

SIDE_FILES = ("image_search.json", "image_search.jsonl")
"""Looked for beside the rows."""


def is_hr_mmsearch(row: Mapping[str, Any]) -> bool:
    """Whether a row is in this layout."""
    return "query" in row and "query_image" in row and "prompt" not in row


def as_row(row: Mapping[str, Any], side: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The same item in the common row layout, with the side file's columns where it has them."""
    renamed = ("query", "query_image", "ground_truth")
    kept = {key: value for key, value in row.items() if key not in renamed}
    cached = side.get(str(row.get("sample_id")), {})
    return {
        **kept,
        **{column: cached[column] for column in SEARCH_COLUMNS if column in cached},
        "id": row.get("sample_id"),
        "prompt": [{"role": "user", "content": str(row["query"])}],
        "image": row["query_image"],
        "reward_model": {"ground_truth": row.get("ground_truth")},
    }


def read_side_file(rows: Path, side: Path | None = None) -> dict[str, dict[str, Any]]:
    """The cached image searches by `sample_id`: a JSON object, or JSON lines that carry their `sample_id`."""
    path = side or next((rows.parent / name for name in SIDE_FILES if (rows.parent / name).is_file()), None)
    if path is None:
        return {}
    if path.suffix == ".jsonl":
        return {str(_sample_id(row, path)): row for row in iter_jsonl(path)}
    table = read_json(path)
    if isinstance(table, list):
        return {str(_sample_id(row, path)): row for row in table}
    if not isinstance(table, dict) or not all(isinstance(value, dict) for value in table.values()):
        raise UserError(f"{path}: an object of sample_id -> columns is expected")
    return table


def _sample_id(row: Any, path: Path) -> Any:
    if not isinstance(row, dict) or "sample_id" not in row:
        raise UserError(f"{path}: each entry needs a sample_id, this has none: {row!r:.80}")
    return row["sample_id"]
