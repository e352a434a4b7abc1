"""MAT-Search (Visual-ARFT, arXiv 2505.14246): 150 questions of several hops, the simple half first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Layout, Row, as_list, common, need, objects

WHOLE = 150


def rows(path: Path) -> Iterator[Row]:
    """The rows of `MAT-Search.json`: `question`, `answer` (a text or a list), `image_path` in `MAT-Search-image/`.

    Of the whole set the first half is the simple one and the second the hard one.

    Layout read from: Visual-ARFT/evaluation_search of github.com/Liuziyu77/Visual-RFT (a fork), and a public reader of
    huggingface.co/datasets/laolao77/MAT
    """
    asked = objects(path)
    for number, row in enumerate(asked):
        half = {"difficulty": "easy" if number < WHOLE // 2 else "hard"} if len(asked) == WHOLE else {}
        name = str(need(row, "image_path", path))
        inside = (path.parent / "MAT-Search-image" / name).is_file()
        yield (
            common(
                row,
                id=row.get("id", number),
                question=str(need(row, "question", path)),
                pictures=[f"MAT-Search-image/{name}" if inside else name],
                answers=as_list(need(row, "answer", path)),
            )
            | half
        )


LAYOUTS = (Layout("json", ("MAT-Search.json", "MAT-Benchmark/MAT-Search.json"), rows),)
