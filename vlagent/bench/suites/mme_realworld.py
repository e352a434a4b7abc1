"""MME-RealWorld (arXiv 2408.13257): 23,599 option questions, A to E, where E says that none of the others is right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vlagent.bench.suites.base import Layout, Row, as_list, common, listed, need, objects, picture_in, shards
from vlagent.data.choices import choices_of
from vlagent.data.tables import iter_table

OPTION = re.compile(r"\(([A-E])\)\s*(.*)", re.DOTALL)


def json_rows(path: Path) -> Iterator[Row]:
    """The rows of `MME_RealWorld.json`, pictures by their paths below it.

    `Question_id`, `Image`, `Text`, `Answer choices` (["(A) ...", ...]), `Ground truth`, `Task`, `Subtask`, `Category`.

    Layout read from: github.com/yfzhang114/MME-RealWorld evaluation/output_test_template.json and eval_your_results.py
    """
    for row in objects(path):
        yield _row(
            row,
            name=need(row, "Question_id", path),
            question=str(need(row, "Text", path)),
            options=need(row, "Answer choices", path),
            answer=need(row, "Ground truth", path),
            picture=str(need(row, "Image", path)),
        ) | {"category": str(row.get("Subtask") or ""), "kind": str(row.get("Task") or "")}


def parquet_rows(path: Path) -> Iterator[Row]:
    """The split in parquet: `index`, `bytes` (base64), `question`, `multi-choice options`, `answer`.

    Layout read from: lmms-eval tasks/mme_realworld/utils.py (yifanzhang114/MME-RealWorld-Lmms-eval)
    """
    for row in shards(path):
        yield _table_row(row, picture_in(path, need(row, "bytes", path)) or "", path)


def tsv_rows(path: Path) -> Iterator[Row]:
    """VLMEvalKit's TSV: `index`, `image` (base64), `question`, `multi-choice options` (one text), `answer`, `category`.

    Layout read from: github.com/open-compass/VLMEvalKit vlmeval/dataset/image_mcq.py, class MMERealWorld
    """
    for row in iter_table(path):
        task, _, subtask = str(row.get("category") or "").partition("/")
        slices = {"category": subtask or task, "kind": task.capitalize()}
        if row.get("choices"):  # option columns, which are listed below the question already
            yield row | slices
            continue
        answer = row.get("reward_model", {}).get("ground_truth")
        asked = {**row, "question": row["prompt"][0]["content"], "answer": answer}
        yield _table_row(asked, next(iter(row["image"]), ""), path)


def _table_row(row: Mapping[str, Any], picture: str, path: Path) -> Row:
    name = str(row.get("category") or "")
    task, _, subtask = name.partition("/")
    return _row(
        row,
        name=row.get("index"),
        question=str(need(row, "question", path)),
        options=need(row, "multi-choice options", path),
        answer=need(row, "answer", path),
        picture=picture,
    ) | {"category": subtask or name, "kind": task.capitalize()}


def _row(row: Mapping[str, Any], *, name: Any, question: str, options: Any, answer: Any, picture: str) -> Row:
    plain = {key: value for key, value in row.items() if key not in "ABCDE"}
    choices = _choices(options)
    return common(
        plain, id=name, question=listed(question, choices), pictures=[picture], answers=[answer], choices=choices
    )


def _choices(options: Any) -> dict[str, str]:
    """Letter -> text, of a list of "(A) ..." or of one text that holds them."""
    parts = as_list(options)
    if len(parts) == 1:
        return choices_of(str(parts[0]), [])
    found = [OPTION.match(str(part).strip()) for part in parts]
    return {each[1]: each[2].strip() for each in found if each}


LAYOUTS = (
    Layout("json", ("MME_RealWorld.json",), json_rows),
    Layout("parquet", ("data/train-*.parquet", "train-*.parquet"), parquet_rows),
    Layout("VLMEvalKit TSV", ("MME-RealWorld.tsv",), tsv_rows),
)
