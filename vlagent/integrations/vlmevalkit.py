"""VLMEvalKit: a data set as its TSV, and what it predicted as a run of ours.

Layout read from: github.com/open-compass/VLMEvalKit vlmeval/dataset/image_base.py and image_mcq.py. Its predictions are
the columns of the data set with `prediction` beside them, as .xlsx, .tsv or .json.
"""

from __future__ import annotations

import base64
import csv
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from vlagent import images
from vlagent.agent.config import AgentConfig
from vlagent.agent.store import write_trajectory
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import row_of
from vlagent.bench.runs import open_book
from vlagent.bench.summary import Summary, summarise
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, only_writer, read_json, write_atomic, write_json
from vlagent.rewards.judge import Judge
from vlagent.types import ImageRef, Sample, StopReason, Trajectory

SLICES = ("category", "difficulty", "kind", "cycle_category")
FAILED = "Failed to obtain answer via API"
"""What VLMEvalKit writes where its model failed: that is no answer."""


def export_tsv(samples: Sequence[Sample], path: Path) -> Path:
    """Write samples as a TSV; a picture that comes again is named by the index of the row that has it.

    The accepted answers of an open question are written as a Python list where there are several. Raises
    `ServiceError` where a picture cannot be read.
    """
    letters = sorted({letter for sample in samples for letter in sample.choices})
    slices = [name for name in SLICES if any(name in sample.extra for sample in samples)]
    buffer = io.StringIO()
    table = csv.writer(buffer, delimiter="\t", lineterminator="\n")
    table.writerow(["index", "image", "question", *letters, "answer", *slices, "id"])
    shown: dict[tuple[ImageRef, ...], int] = {}
    for index, sample in enumerate(samples):
        picture = _picture_field(sample, shown, index)
        options = [sample.choices.get(letter, "") for letter in letters]
        extra = [str(sample.extra.get(name, "")) for name in slices]
        table.writerow([index, picture, _question(sample), *options, _answer(sample), *extra, sample.id])
    write_atomic(path, buffer.getvalue())
    return path


def _picture_field(sample: Sample, shown: dict[tuple[ImageRef, ...], int], index: int) -> str:
    if sample.images and shown.setdefault(sample.images, index) != index:
        return str(shown[sample.images])
    coded = [base64.b64encode(_bytes(ref)).decode("ascii") for ref in sample.images]
    return coded[0] if len(coded) == 1 else str(coded) if coded else ""


def _bytes(ref: ImageRef) -> bytes:
    """The file itself; a region is cut and written as PNG."""
    return Path(ref.path).read_bytes() if ref.box is None else images.encode(images.load(ref))


def _question(sample: Sample) -> str:
    """Without the options that stand below it: VLMEvalKit lists them itself."""
    listed = [f"{letter}. {text}" for letter, text in sample.choices.items()]
    lines = sample.question.splitlines()
    own = lines[: -len(listed)] if listed and lines[-len(listed) :] == listed else lines
    return "\n".join(own)


def _answer(sample: Sample) -> str:
    return sample.answers[0] if len(sample.answers) == 1 else str(list(sample.answers)) if sample.answers else ""


async def import_predictions(path: Path, samples: Sequence[Sample], run: Path, judge: Judge | None = None) -> Summary:
    """Score the predictions for samples by our rules (and judge) into a run folder that reports and comparisons read.

    A prediction belongs to the sample of its `id`, else of its `index` as `export_tsv` counts them. A row that its
    model failed, or that is not there, is failed and not wrong. Raises `UserError` for a file that cannot be read.
    """
    answers = dict(_answers(path, samples))
    config = EvalConfig(
        target=str(path), model=f"vlmevalkit:{path.stem}", agent=AgentConfig(workflow="direct", tools=())
    )
    with only_writer(run):
        book = open_book(run, config, samples)
        for sample in samples:
            trajectory = _as_trajectory(sample, answers.get(sample.id))
            write_trajectory(run, trajectory)
            book.add(await row_of(sample, trajectory, judge))
        book.compact()
        summary = summarise(run)
        write_json(run / "summary.json", summary)
    return summary


def _as_trajectory(sample: Sample, answer: str | None) -> Trajectory:
    if answer is None or answer.startswith(FAILED):
        detail = "there is no prediction" if answer is None else answer
        return Trajectory(
            sample_id=sample.id,
            workflow="direct",
            stop=StopReason.MODEL_FAILURE,
            stop_detail=detail,
            images=sample.images,
        )
    return Trajectory(
        sample_id=sample.id, workflow="direct", answer=answer, stop=StopReason.ANSWERED, images=sample.images
    )


def _answers(path: Path, samples: Sequence[Sample]) -> Iterator[tuple[str, str]]:
    """(sample id, prediction) of each row."""
    known = {sample.id for sample in samples}
    for number, row in enumerate(_rows(path), 1):
        if "prediction" not in row:
            raise UserError(f"{path}: row {number}: a column `prediction` is expected; there are {', '.join(row)}")
        name = str(row.get("id") or "")
        if name not in known:
            name = _by_index(row.get("index"), samples, f"{path}: row {number}")
        if row["prediction"] is not None:
            yield name, str(row["prediction"])


def _by_index(value: Any, samples: Sequence[Sample], where: str) -> str:
    text = str(value)
    if not text.isdigit() or int(text) >= len(samples):
        raise UserError(f"{where}: neither its id nor its index {value!r} is that of a question")
    return samples[int(text)].id


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.suffix == ".xlsx":
        return _sheet(path)
    if path.suffix in (".tsv", ".csv"):
        return _table(path)
    if path.suffix == ".jsonl":
        return iter_jsonl(path)
    if path.suffix == ".json":
        value = read_json(path)
        if isinstance(value, list) and all(isinstance(row, dict) for row in value):
            return iter(value)
    raise UserError(f"{path}: predictions are an .xlsx, .tsv, .csv, .jsonl, or a .json list of objects")


def _table(path: Path) -> Iterator[Mapping[str, Any]]:
    csv.field_size_limit(2**28)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from csv.DictReader(file, delimiter="," if path.suffix == ".csv" else "\t")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: cannot be read as a table ({error})") from None


def _sheet(path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise UserError(f"{path}: reading .xlsx needs openpyxl: pip install openpyxl, or save it as .tsv") from None
    try:
        sheet = openpyxl.load_workbook(path, read_only=True, data_only=True).active
        rows = sheet.iter_rows(values_only=True)
        names = [str(name) for name in next(rows, ())]
        yield from (dict(zip(names, values, strict=False)) for values in rows)
    except (OSError, KeyError, ValueError, importlib.import_module("zipfile").BadZipFile) as error:
        raise UserError(f"{path}: cannot be read as .xlsx ({error})") from None
