"""HR-MMSearch (arXiv 2512.24330): 305 questions about 4K pictures of 2025."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Layout, Row, common, need, picture_in, shards
from vlagent.data.hr_mmsearch import read_side_file
from vlagent.data.manifest import common_rows
from vlagent.data.rows import SEARCH_COLUMNS, Origin


def parquet_rows(path: Path) -> Iterator[Row]:
    """The rows of `data/train-*.parquet`; a side file of cached image searches may lie beside them.

    `sample_id`, `query`, `query_image` (picture), `ground_truth`, `difficulty` (easy, hard), `category`.

    Layout read from: the card of huggingface.co/datasets/sensenova/HR-MMSearch
    """
    side = read_side_file(path)
    for row in shards(path):
        cached = side.get(str(row.get("sample_id")), {})
        yield common(
            {**row, **{name: cached[name] for name in SEARCH_COLUMNS if name in cached}},
            id=need(row, "sample_id", path),
            question=str(need(row, "query", path)),
            pictures=[picture_in(path, need(row, "query_image", path)) or ""],
            answers=[need(row, "ground_truth", path)],
        )


def jsonl_rows(path: Path) -> Iterator[Row]:
    """JSON lines with the same columns, `query_image` being a path, and the side file `image_search.json[l]`.

    Layout unverified: no public copy of this form was found; the columns are those of the parquet form
    """
    return common_rows(Origin(source="hr_mmsearch", root=path.parent, file=path))


LAYOUTS = (
    Layout("parquet", ("data/train-*.parquet", "train-*.parquet"), parquet_rows),
    Layout("jsonl", ("hr_mmsearch.jsonl", "HR-MMSearch.jsonl"), jsonl_rows),
)
