"""Writes the items of a suite as that suite is published: the same columns, the same places, strays included."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench.suites.items import Item


def _write(path: Path, data: bytes | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def _jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    _write(path, "".join(json.dumps(row) + "\n" for row in rows))


def _parquet(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.Table.from_pylist(list(rows)), path)


def _tsv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    names = list(rows[0])
    lines = ["\t".join(names), *("\t".join(str(row[name]) for name in names) for row in rows)]
    _write(path, "\n".join(lines) + "\n")


def _bytes(item: Item) -> dict[str, Any]:
    return {"bytes": item.png(), "path": None}


def _base64(item: Item) -> str:
    return base64.b64encode(item.png()).decode()


def mmsearch(root: Path, items: Sequence[Item]) -> None:
    rows = [
        {
            "sample_id": f"mm-{item.number}",
            "query": item.question,
            "query_image": _bytes(item),
            "image_search_result": _bytes(item),
            "area": "news",
            "subfield": "sports",
            "timestamp": "2024-08",
            "gt_requery": "thing",
            "gt_answer": item.name,
            "alternative_gt_answers": [f"the {item.name}"],
        }
        for item in items
    ]
    blind = [{**rows[0], "sample_id": "mm-text", "query_image": None, "image_search_result": None}]
    _parquet(root / "mmsearch" / "end2end.parquet", rows[:2] + blind + rows[2:])


def _hr(item: Item) -> dict[str, Any]:
    kind = {"difficulty": "hard" if item.number % 2 else "easy", "category": "Sports" if item.number < 4 else "Games"}
    return {"sample_id": f"{item.number:03}", "query": item.question, "ground_truth": item.name, **kind}


def hr_mmsearch_parquet(root: Path, items: Sequence[Item]) -> None:
    rows = [{**_hr(item), "query_image": _bytes(item)} for item in items]
    for part, some in enumerate((rows[:4], rows[4:])):
        _parquet(root / "HR-MMSearch" / "data" / f"train-{part:05}-of-00002.parquet", some)


def hr_mmsearch_jsonl(root: Path, items: Sequence[Item]) -> None:
    folder = root / "hr_mmsearch"
    for item in items:
        _write(folder / "images" / f"{item.number}.png", item.png())
    _jsonl(folder / "hr_mmsearch.jsonl", [{**_hr(i), "query_image": f"images/{i.number}.png"} for i in items])
    cached = {f"{i.number:03}": {"image_search_title_list": [f"Page of {i.number}"]} for i in items}
    _write(folder / "image_search.json", json.dumps(cached))


def fvqa(root: Path, items: Sequence[Item]) -> None:
    rows = [
        {
            "prompt": [{"content": item.question, "role": "user"}],
            "images": [_bytes(item)],
            "reward_model": {"candidate_answers": json.dumps([f"the {item.name}"]), "ground_truth": item.name},
            "data_source": "mmsearch_r1/fvqa_test",
            "image_urls": None,
            "data_id": f"fvqa_test_{item.number}",
            "category": "search_required" if item.number % 2 else "search_free",
        }
        for item in items
    ]
    _parquet(root / "fvqa_test" / "fvqa_test.parquet", rows)


def infoseek(root: Path, items: Sequence[Item]) -> None:
    folder = root / "infoseek"
    rows = []
    for item in items:
        _write(folder / "oven" / f"{item.number}.jpg", item.png())
        exact = [{"wikidata": 1.0, "range": [0.9, 1.1]}] if item.number == 1 else [item.name]
        split = "val_unseen_entity" if item.number % 2 else "val_unseen_question"
        rows.append(
            {
                "data_id": f"infoseek_val_{item.number:08}",
                "image_id": f"oven_{item.number:08}",
                "question": item.question,
                "answer": [item.name],
                "answer_eval": exact,
                "data_split": split,
            }
        )
    _jsonl(folder / "infoseek_val.jsonl", rows)
    paths = [{"image_id": f"oven_{i.number:08}", "image_path": f"oven/{i.number}.jpg"} for i in items]
    _jsonl(folder / "id2image.jsonl", paths)


def simplevqa(root: Path, items: Sequence[Item]) -> None:
    rows = [
        {
            "data_id": item.number,
            "image": _base64(item),
            "image_description": "a corner",
            "language": "EN",
            "question": item.question,
            "answer": item.name,
            "original_category": "art",
            "source": "x",
            "atomic_question": "",
            "atomic_fact": "",
            "vqa_category": "objects",
        }
        for item in items
    ]
    _parquet(root / "simplevqa" / "data" / "test-00000-of-00001.parquet", [*rows, {**rows[0], "language": "CN"}])


def livevqa_preview(root: Path, items: Sequence[Item]) -> None:
    folder = root / "livevqa"
    for item in items:
        _write(folder / "image" / f"{item.number}.jpg", item.png())
    rows = [
        {"sample_id": f"s{i.number}", "query": i.question, "query_image": f"/image/{i.number}.jpg", "gt_answer": i.name}
        for i in items
    ]
    _write(folder / "qa.json", json.dumps(rows))
    _write(folder / "qa_detailed.json", json.dumps([{**row, "topic": "sports", "context": "x"} for row in rows]))


def livevqa_benchmark(root: Path, items: Sequence[Item]) -> None:
    folder = root / "livevqa" / "News"
    rows = []
    for item in items:
        _write(folder / "News_imgs" / f"{item.number}.webp", item.png())
        asked = {
            "question": item.question,
            "question_type": "location",
            "options": ["A. x", "B. y"],
            "Ground_Truth": "B",
            "Ground_Truth_List": [item.name, f"the {item.name}"],
            "img_path": f"{item.number}.webp",
        }
        both = {"level1_qa": asked} if item.number % 2 else {"level1_qa": None, "level2_qa": asked}
        rows.append({"id": f"0_{item.number}", "img_path": f"{item.number}.webp", **both, "source": "CNN"})
    _write(folder / "benchmark.json", json.dumps(rows))


def mat_search(root: Path, items: Sequence[Item]) -> None:
    folder = root / "mat_search" / "MAT-Benchmark"
    rows = []
    for item in items:
        _write(folder / "MAT-Search-image" / f"{item.number}.jpg", item.png())
        answer = item.name if item.number % 2 else [item.name, f"the {item.name}"]
        rows.append(
            {"id": item.number, "question": item.question, "answer": answer, "image_path": f"{item.number}.jpg"}
        )
    _write(folder / "MAT-Search.json", json.dumps(rows))


def vstar_jsonl(root: Path, items: Sequence[Item]) -> None:
    folder = root / "vstar_bench"
    rows = []
    for item in items:
        _write(folder / "direct_attributes" / f"sa_{item.number}.jpg", item.png())
        rows.append({**_vstar(item), "image": f"direct_attributes/sa_{item.number}.jpg"})
    _jsonl(folder / "test_questions.jsonl", rows)


def vstar_parquet(root: Path, items: Sequence[Item]) -> None:
    rows = [{**_vstar(item), "image": _bytes(item)} for item in items]
    _parquet(root / "vstar" / "data" / "test-00000-of-00001.parquet", rows)


def _vstar(item: Item) -> dict[str, Any]:
    options = "\n".join(f"({letter}) {text}" for letter, text in item.options.items())
    text = f"{item.question}\n{options}\nAnswer with the option's letter from the given choices directly."
    return {"text": text, "category": "direct_attributes", "label": item.letter, "question_id": item.number}


def vstar_tsv(root: Path, items: Sequence[Item]) -> None:
    _tsv(root / "vstar" / "VStarBench.tsv", [_option_row(item) for item in items])


def _option_row(item: Item) -> dict[str, Any]:
    """VLMEvalKit's columns; a repeated picture is named by the index of the row that has it."""
    return {
        "index": item.number,
        "image": _base64(item),
        "question": item.question,
        **item.options,
        "answer": item.letter,
        "category": "single" if item.number % 2 else "cross",
        "cycle_category": item.number // 4,
    }


def _hr_bench(size: str) -> tuple[Callable[..., None], Callable[..., None]]:
    def tsv(root: Path, items: Sequence[Item]) -> None:
        _tsv(root / f"hr_bench_{size}" / f"hr_bench_{size}.tsv", [_option_row(item) for item in items])

    def parquet(root: Path, items: Sequence[Item]) -> None:
        rows = [{key: value for key, value in _option_row(item).items() if key != "E"} for item in items]
        _parquet(root / f"hrbench_{size}" / "data" / f"hrbench_{size}-00000-of-00001.parquet", rows)

    return tsv, parquet


hrbench_4k_tsv, hrbench_4k_parquet = _hr_bench("4k")
hrbench_8k_tsv, hrbench_8k_parquet = _hr_bench("8k")


def mme_json(root: Path, items: Sequence[Item]) -> None:
    folder = root / "mme_realworld"
    rows = []
    for item in items:
        _write(folder / "monitoring_images" / f"{item.number}.png", item.png())
        rows.append(
            {
                "Question_id": f"perception/monitoring/Vehicle/counting/{item.number:04}",
                "Image": f"monitoring_images/{item.number}.png",
                "Text": item.question,
                "Question Type": "Multiple Choice",
                "Answer choices": [f"({letter}) {text}" for letter, text in item.options.items()],
                "Ground truth": item.letter,
                "Category": "Vehicle/counting",
                "Subtask": "Monitoring",
                "Task": "Perception",
            }
        )
    _write(folder / "MME_RealWorld.json", json.dumps(rows))


def _mme_row(item: Item) -> dict[str, Any]:
    return {"index": item.number, "question": item.question, "answer": item.letter, "category": "Perception/Monitoring"}


def mme_parquet(root: Path, items: Sequence[Item]) -> None:
    rows = [
        {
            **_mme_row(item),
            "bytes": _base64(item),
            "multi-choice options": [f"({letter}) {text}" for letter, text in item.options.items()],
            "l2-category": "Vehicle/counting",
        }
        for item in items
    ]
    _parquet(root / "mme_realworld" / "data" / "train-00000-of-00001.parquet", rows)


def mme_tsv(root: Path, items: Sequence[Item]) -> None:
    rows = []
    for item in items:
        options = "  ".join(f"({letter}) {text}" for letter, text in item.options.items())
        text = f"The choices are listed below: {options}"
        rows.append({**_mme_row(item), "image": _base64(item), "multi-choice options": text})
    _tsv(root / "mme_realworld" / "MME-RealWorld.tsv", rows)


def released(root: Path, entry: str, items: Sequence[Item], *, options: bool) -> None:
    """An entry of `test_all.json` and its rows, as released: nothing is rewarded, the metric is named as unused."""
    folder = root / "data" / "eval" / entry
    rows = []
    for item in items:
        _write(folder / "images" / f"{item.number}.png", item.png())
        listed = "".join(f"\n({letter}) {text}" for letter, text in item.options.items()) if options else ""
        rows.append(
            {
                "index": item.number,
                "prompt": [{"role": "user", "content": f"<image>\n{item.question}{listed}"}],
                "image": [f"images/{item.number}.png"],
                "reward_model": {"ground_truth": item.letter if options else [item.name]},
                "mean8_llm_score": 0.25,
                "image_search_title_list": [f"Page {item.number}"],
                "image_search_thumbnail_list": ["images/gone.png"],
            }
        )
    _jsonl(folder / "data.jsonl", rows)
    manifest = root / "test_all.json"
    known = json.loads(manifest.read_text()) if manifest.exists() else {}
    prompt = "#Role\nAnswer in <answer> </answer>, call tools in <tool_call> </tool_call>."
    known[entry] = {
        "root": f"./data/eval/{entry}",
        "annotation": f"./data/eval/{entry}/data.jsonl",
        "length": len(rows),
        "repeat_time": 1,
        "reward_fn": [],
        "unused_reward_fn": ["em_score_mcq" if options else "llm_score"],
        "input_template": {
            "name": "general",
            "arguments": {"system_prompt": prompt, "format_instruction": "", "add_image_path": False},
        },
        "comment": entry,
    }
    manifest.write_text(json.dumps(known))


Writer = Callable[[Path, Sequence[Item]], None]
PUBLISHED: dict[tuple[str, str], Writer] = {
    ("mmsearch", "parquet"): mmsearch,
    ("hr_mmsearch", "parquet"): hr_mmsearch_parquet,
    ("hr_mmsearch", "jsonl"): hr_mmsearch_jsonl,
    ("fvqa_test", "parquet"): fvqa,
    ("infoseek", "jsonl"): infoseek,
    ("simplevqa", "parquet"): simplevqa,
    ("livevqa", "preview"): livevqa_preview,
    ("livevqa", "benchmark"): livevqa_benchmark,
    ("mat_search", "json"): mat_search,
    ("vstar", "jsonl"): vstar_jsonl,
    ("vstar", "parquet"): vstar_parquet,
    ("vstar", "VLMEvalKit TSV"): vstar_tsv,
    ("hrbench_4k", "VLMEvalKit TSV"): hrbench_4k_tsv,
    ("hrbench_4k", "parquet"): hrbench_4k_parquet,
    ("hrbench_8k", "VLMEvalKit TSV"): hrbench_8k_tsv,
    ("hrbench_8k", "parquet"): hrbench_8k_parquet,
    ("mme_realworld", "json"): mme_json,
    ("mme_realworld", "parquet"): mme_parquet,
    ("mme_realworld", "VLMEvalKit TSV"): mme_tsv,
}
"""(suite, layout) -> what writes it."""
