"""LiveVQA (arXiv 2504.05288): questions about pictures in the news; 3,602 in the research preview."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlagent.bench.suites.base import Layout, Row, as_list, common, need, objects

FOLDERS = {"News": "News_imgs", "Paper": "Paper_images", "Video": "Video_images"}


def preview_rows(path: Path) -> Iterator[Row]:
    """The rows of the research preview's `qa.json`; `topic` comes from `qa_detailed.json` where it is there.

    `sample_id`, `query`, `query_image` (a path, pictures in `image/`), `gt_answer`.

    Layout read from: a public converter of huggingface.co/datasets/ONE-Lab/LiveVQA-Research-Preview
    """
    topics = _topics(path.parent / "qa_detailed.json")
    for row in objects(path):
        name = str(need(row, "sample_id", path))
        yield common(
            row,
            id=name,
            question=str(need(row, "query", path)),
            pictures=[_picture(path.parent, str(need(row, "query_image", path)))],
            answers=as_list(need(row, "gt_answer", path)),
        ) | {"category": topics.get(name, "")}


def benchmark_rows(path: Path) -> Iterator[Row]:
    """The rows of `News/benchmark.json` (Paper and Video alike): two questions an item, of level 1 and of level 2.

    `id`, `img_path`, `level1_qa` and `level2_qa` {question, question_type, options, Ground_Truth (letter),
    Ground_Truth_List}. The questions are asked without their options, as their own scorer does.

    Layout read from: github.com/fumingyang2004/LIVEVQA liveVQA_benchmarks/News/benchmark.json
    """
    folder = FOLDERS.get(path.parent.name, "")
    for item in objects(path):
        for level in (1, 2):
            asked = item.get(f"level{level}_qa")
            if isinstance(asked, dict):
                picture = str(asked.get("img_path") or need(item, "img_path", path))
                yield common(
                    {key: value for key, value in item.items() if not key.startswith("level")},
                    id=f"{need(item, 'id', path)}-{level}",
                    question=str(need(asked, "question", path)),
                    pictures=[f"{folder}/{picture}" if folder else picture],
                    answers=as_list(need(asked, "Ground_Truth_List", path)),
                ) | {"level": str(level), "category": str(asked.get("question_type") or "")}


def _topics(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    return {str(row.get("sample_id")): str(row.get("topic") or "") for row in objects(path)}


def _picture(root: Path, name: str) -> str:
    """A path as the file writes it (`/image/x.jpg`), or wherever that picture lies."""
    plain = name.lstrip("/")
    candidates = (plain, Path(plain).name, f"image/{Path(plain).name}")
    return next((each for each in candidates if (root / each).is_file()), plain)


LAYOUTS = (
    Layout("preview", ("qa.json",), preview_rows),
    Layout("benchmark", ("News/benchmark.json", "Paper/benchmark.json", "Video/benchmark.json"), benchmark_rows),
)
