"""SimpleVQA (arXiv 2502.13059): 2,025 factual questions, the 1,013 English ones of which are scored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Layout, Row, common, need, picture_in, shards

ENGLISH = ("en", "english")


def rows(path: Path) -> Iterator[Row]:
    """The English rows of the test split in parquet.

    `data_id`, `image` (base64), `language` (EN, CN), `question`, `answer`, `original_category`, `vqa_category`.

    Layout read from: public loaders of huggingface.co/datasets/m-a-p/SimpleVQA that list its columns and filter
    language == "EN"
    """
    for row in shards(path):
        if str(need(row, "language", path)).lower() not in ENGLISH:
            continue
        yield common(
            row,
            id=need(row, "data_id", path),
            question=str(need(row, "question", path)),
            pictures=[picture_in(path, need(row, "image", path)) or ""],
            answers=[need(row, "answer", path)],
        ) | {"category": row.get("vqa_category") or row.get("original_category") or ""}


LAYOUTS = (Layout("parquet", ("data/test-*.parquet", "test*.parquet", "simplevqa*.parquet"), rows),)
