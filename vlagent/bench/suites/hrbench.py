"""HR-Bench (arXiv 2408.15556) at 4K and 8K: 200 option questions each, asked four times with their options in turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites import vlmeval
from vlagent.bench.suites.base import Layout, Row, common, listed, need, picture_in, shards


def parquet_rows(path: Path) -> Iterator[Row]:
    """The split in parquet: `index`, `image` (base64), `question`, `A` to `D`, `answer`, `category`, `cycle_category`.

    Layout read from: lmms-eval tasks/hrbench/utils.py, and the card of huggingface.co/datasets/ohjoonhee/HR-Bench
    """
    for row in shards(path):
        choices = {letter: str(row[letter]) for letter in "ABCD" if row.get(letter) not in (None, "")}
        plain = {key: value for key, value in row.items() if key not in choices}
        yield common(
            plain,
            id=row.get("index"),
            question=listed(str(need(row, "question", path)), choices),
            pictures=[picture_in(path, need(row, "image", path)) or ""],
            answers=[need(row, "answer", path)],
            choices=choices,
        )


def layouts(size: str) -> tuple[Layout, ...]:
    """Of `4k` or `8k`."""
    tables = (f"hr_bench_{size}.tsv", f"HRBench{size.upper()}.tsv")
    return (
        Layout("VLMEvalKit TSV", tables, vlmeval.rows),
        Layout("parquet", (f"data/hrbench_{size}-*.parquet", f"hrbench_{size}*.parquet"), parquet_rows),
    )
