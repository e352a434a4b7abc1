"""V*Bench (arXiv 2312.14135): 191 option questions about small things in large pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites import vlmeval
from vlagent.bench.suites.base import Layout, Row, common, need, picture_in, shards
from vlagent.data.choices import choices_of
from vlagent.files import iter_jsonl


def jsonl_rows(path: Path) -> Iterator[Row]:
    """The rows of `test_questions.jsonl`: `image` (path), `text` (question and options), `label` (letter), `category`.

    Layout read from: public readers of huggingface.co/datasets/craigwu/vstar_bench, and lmms-eval tasks/vstar_bench
    """
    for row in iter_jsonl(path):
        yield _row(row, str(need(row, "image", path)), path)


def parquet_rows(path: Path) -> Iterator[Row]:
    """The same columns in parquet, `image` being the picture.

    Layout read from: lmms-eval tasks/vstar_bench/utils.py and _default_template_yaml (lmms-lab/vstar-bench)
    """
    for row in shards(path):
        yield _row(row, picture_in(path, need(row, "image", path)) or "", path)


def _row(row: Row, picture: str, path: Path) -> Row:
    text, label = str(need(row, "text", path)), str(need(row, "label", path)).strip()
    choices = choices_of(text, [label])
    return common(row, id=row.get("question_id"), question=text, pictures=[picture], answers=[label], choices=choices)


LAYOUTS = (
    Layout("jsonl", ("test_questions.jsonl",), jsonl_rows),
    Layout("parquet", ("data/test-*.parquet", "test-*.parquet"), parquet_rows),
    Layout("VLMEvalKit TSV", ("VStarBench.tsv",), vlmeval.rows),
)
