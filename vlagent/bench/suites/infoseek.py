"""InfoSeek (arXiv 2302.11713): visual information-seeking questions; 2,000 of them in the published scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlagent.bench.suites.base import Layout, Row, as_list, common, need
from vlagent.errors import UserError
from vlagent.files import iter_jsonl

EXTENSIONS = (".jpg", ".JPEG", ".jpeg", ".png")


def rows(path: Path) -> Iterator[Row]:
    """JSON lines of `infoseek_val.jsonl`, the pictures by `id2image.jsonl` beside it, else by their id below it.

    `data_id`, `image_id`, `question`, `answer` ([str]), `answer_eval` ([str], or [{wikidata, range}] of a quantity),
    `data_split`. A quantity's range is kept in `extra`; what is accepted is `answer`. Which 2,000 questions the
    published scores are of is in the released manifest only.

    Layout read from: github.com/edchengg/infoseek_eval infoseek_eval.py and run_blip2_infoseek.py
    """
    known = _pictures(path)
    for row in iter_jsonl(path):
        image = str(need(row, "image_id", path))
        yield common(
            row,
            id=need(row, "data_id", path),
            question=str(need(row, "question", path)),
            pictures=[known.get(image) or _beside(path, image)],
            answers=[*as_list(row.get("answer")), *_names(row.get("answer_eval"))],
        ) | {"category": str(row.get("data_split") or "")}


def _pictures(path: Path) -> dict[str, str]:
    table = path.parent / "id2image.jsonl"
    if not table.is_file():
        return {}
    return {str(need(row, "image_id", table)): str(need(row, "image_path", table)) for row in iter_jsonl(table)}


def _beside(path: Path, image: str) -> str:
    for folder in ("", "images/", "oven_images/", f"{image[5:7]}/"):
        for extension in EXTENSIONS:
            if (path.parent / f"{folder}{image}{extension}").is_file():
                return f"{folder}{image}{extension}"
    if "/" in image or "\0" in image:
        raise UserError(f"{path}: image_id {image!r}: a plain name is expected")
    return f"images/{image}.jpg"


def _names(value: Any) -> list[str]:
    return [each for each in as_list(value) if isinstance(each, str)]


LAYOUTS = (Layout("jsonl", ("infoseek_val.jsonl", "infoseek*.jsonl"), rows),)
