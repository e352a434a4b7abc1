"""MMSearch (arXiv 2409.12959): 300 questions of the end-to-end task, 171 of them with a picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Layout, Row, as_list, common, need, picture_in, shards


def rows(path: Path) -> Iterator[Row]:
    """The rows of `end2end.parquet` that have a picture: the 171 of the published scores.

    `sample_id`, `query`, `query_image` (picture or null), `gt_answer`, `alternative_gt_answers`, `area`, `subfield`.

    Layout read from: github.com/CaraJ7/MMSearch eval_end2end.py, and lmms-eval tasks/mmsearch/lmms_eval_utils.py
    """
    for row in shards(path):
        picture = picture_in(path, need(row, "query_image", path))
        if picture is None:
            continue
        yield common(
            row,
            id=row.get("sample_id"),
            question=str(need(row, "query", path)),
            pictures=[picture],
            answers=[need(row, "gt_answer", path), *as_list(row.get("alternative_gt_answers"))],
        ) | {"category": row.get("subfield") or row.get("area") or ""}


LAYOUTS = (Layout("parquet", ("end2end.parquet", "end2end/*.parquet", "*end2end*.parquet"), rows),)
