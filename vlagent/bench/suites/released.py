"""The released manifests: one JSON file that names a folder and a file of rows for each data set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Row
from vlagent.data.manifest import common_rows
from vlagent.data.rows import Origin

MANIFESTS = ("manifest.json", "test_all.json", "test_subset.json")
"""Looked for in the data folder, in this order; the last two are the released names."""


def rows(path: Path) -> Iterator[Row]:
    """The rows of an entry's `data.jsonl`.

    `prompt`, `image` relative to `root`, `reward_model`, and `image_search_*`; see `vlagent.data.manifest`.

    Layout read from: github.com/OpenSenseNova/SenseNova-MARS test_all.json, train_qwen3_vl_8b.json and
    verl/verl/utils/dataset/rl_dataset_json_v2.py
    """
    return common_rows(Origin(source=path.parent.name, root=path.parent, file=path))
