"""lmms-eval: a data set as a task directory, scored by our rules.

    vlagent bench export lmms-eval hr_mmsearch TASKS --data DIR
    python -m lmms_eval --include_path TASKS --tasks vlagent_hr_mmsearch --model ...

Layout read from: github.com/EvolvingLMMs-Lab/lmms-eval docs/guides/task_guide.md and tasks/vstar_bench. Its models
answer in one turn without tools: what is measured there is the workflow `direct`, by rules alone.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from vlagent import images
from vlagent.errors import UserError
from vlagent.files import write_atomic
from vlagent.rewards.rubric import outcome_of
from vlagent.types import Outcome, Sample, StopReason, Trajectory

METRIC = "vlagent_accuracy"
YAML = """\
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: "{data}"
task: "{task}"
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: "target"
generation_kwargs:
  max_new_tokens: 1024
  temperature: 0
  do_sample: false
process_results: !function utils.process_results
metric_list:
  - metric: {metric}
    aggregation: !function utils.mean_of_scored
    higher_is_better: true
lmms_eval_specific_kwargs:
  default:
    pre_prompt: ""
    post_prompt: "{ending}"
metadata:
  - version: 0.0
"""
UTILS = '''"""Made by `vlagent bench export lmms-eval`."""

from vlagent.integrations.lmms_eval import doc_to_text, doc_to_visual, mean_of_scored, process_results

__all__ = ["doc_to_text", "doc_to_visual", "mean_of_scored", "process_results"]
'''


def export_task(samples: Sequence[Sample], folder: Path, name: str) -> Path:
    """Write `folder/vlagent_NAME`: the task's YAML, its functions and its data. The data is named by its full path.

    Raises `UserError` without pyarrow, and `ServiceError` where a picture cannot be read.
    """
    task = "vlagent_" + re.sub(r"\W+", "_", name)
    target = folder / task
    data = (target / "data" / "test.parquet").absolute()
    _write_rows(samples, data)
    options = all(sample.choices for sample in samples)
    ending = "Answer with the letter of the option alone." if options else "Answer with a word or a short phrase."
    text = YAML.format(data=data, task=task, metric=METRIC, ending=rf"\n{ending}")
    write_atomic(target / f"{task}.yaml", text)
    write_atomic(target / "utils.py", UTILS)
    return target


def _write_rows(samples: Sequence[Sample], path: Path) -> None:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError("exporting to lmms-eval needs pyarrow: pip install 'pyarrow>=15'") from None
    schema = arrow.schema(
        [
            ("id", arrow.string()),
            ("question", arrow.string()),
            ("images", arrow.list_(arrow.binary())),
            ("target", arrow.string()),
            ("sample", arrow.string()),
        ]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with parquet.ParquetWriter(part, schema) as writer:
        for sample in samples:
            writer.write_table(arrow.Table.from_pylist([_row(sample)], schema=schema))
    part.replace(path)


def _row(sample: Sample) -> dict[str, Any]:
    pictures = [Path(r.path).read_bytes() if r.box is None else images.encode(images.load(r)) for r in sample.images]
    return {
        "id": sample.id,
        "question": sample.question,
        "images": pictures,
        "target": sample.answers[0] if sample.answers else "",
        "sample": sample.model_dump_json(),
    }


def doc_to_visual(doc: Mapping[str, Any]) -> list[Image.Image]:
    """The pictures of a row, upright and in RGB as far as Pillow reads them."""
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in doc["images"]]


def doc_to_text(doc: Mapping[str, Any], lmms_eval_specific_kwargs: Mapping[str, str] | None = None) -> str:
    """The question between what the task puts before and behind it."""
    given = lmms_eval_specific_kwargs or {}
    return f"{given.get('pre_prompt', '')}{doc['question']}{given.get('post_prompt', '')}"


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float | None]:
    """1 or 0 by our rules; None where the question has no accepted answer, which is no score."""
    sample = Sample.model_validate_json(doc["sample"])
    said = results[0] if results else ""
    played = Trajectory(sample_id=sample.id, workflow="direct", answer=said, stop=StopReason.ANSWERED)
    outcome = asyncio.run(outcome_of(sample, played, None)).outcome
    return {METRIC: None if outcome is Outcome.UNSCORED else float(outcome is Outcome.RIGHT)}


def mean_of_scored(scores: Sequence[float | None]) -> float:
    """The mean of what was scored; 0 of nothing, since lmms-eval wants a number."""
    scored = [score for score in scores if score is not None]
    return sum(scored) / len(scored) if scored else 0.0
