"""Our data as VLMEvalKit's TSV, and its predictions as a run of ours."""

from __future__ import annotations

import base64
import csv
import json

import pytest

from tests.bench.suites.items import KNOWLEDGE, PERCEPTION, items
from tests.bench.suites.published import mmsearch, vstar_jsonl
from tests.bench.suites.world import Marker
from tests.data.files import row, write_picture, write_rows
from vlagent.bench.compare import compare
from vlagent.bench.runs import read_samples
from vlagent.bench.suites import resolve_suites
from vlagent.cli.main import main
from vlagent.data.manifest import load_samples
from vlagent.errors import UserError
from vlagent.integrations.vlmevalkit import export_tsv, import_predictions
from vlagent.rewards.judge import Judge


def table(path):
    csv.field_size_limit(2**28)
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@pytest.fixture
def options(tmp_path):
    vstar_jsonl(tmp_path, PERCEPTION)
    return resolve_suites(["vstar"], tmp_path)[0].load()


def test_an_exported_table_is_what_vlmevalkit_reads_and_what_we_read_back(tmp_path, options):
    path = export_tsv(options, tmp_path / "mine.tsv")
    for index, (line, item) in enumerate(zip(table(path), PERCEPTION, strict=True)):
        assert (line["index"], line["answer"], line["category"]) == (str(index), item.letter, "direct_attributes")
        assert base64.b64decode(line["image"]) == item.png()
        assert {letter: line[letter] for letter in "ABCDE"} == item.options
    again = load_samples(path)
    assert [sample.choices for sample in again] == [sample.choices for sample in options]
    assert [sample.answers for sample in again] == [sample.answers for sample in options]


def test_the_options_are_not_listed_twice(tmp_path):
    write_picture(tmp_path / "a.png")
    write_rows(tmp_path / "mine.jsonl", {"question": "Which?", "A": "x", "B": "y", "answer": "A", "image": "a.png"})
    samples = load_samples(tmp_path / "mine.jsonl")
    assert samples[0].question == "Which?\nA. x\nB. y"
    assert table(export_tsv(samples, tmp_path / "t.tsv"))[0]["question"] == "Which?"
    assert load_samples(tmp_path / "t.tsv")[0].question == samples[0].question


def test_a_picture_that_comes_again_is_written_once_and_several_answers_are_kept(tmp_path):
    write_picture(tmp_path / "a.png")
    truths = {"ground_truth": ["Paris", "the city of Paris"]}
    write_rows(tmp_path / "mine.jsonl", row(), row(id="two", reward_model=truths))
    first, second = table(export_tsv(load_samples(tmp_path / "mine.jsonl"), tmp_path / "t.tsv"))
    assert len(first["image"]) > 64
    assert second["image"] == "0"
    assert second["answer"] == "['Paris', 'the city of Paris']"


def predicted(path, samples, answers):
    rows = [
        {"index": n, "id": sample.id, "prediction": said}
        for n, (sample, said) in enumerate(zip(samples, answers, strict=False))
    ]
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".xlsx":
        openpyxl = pytest.importorskip("openpyxl")
        book = openpyxl.Workbook()
        for line in (list(rows[0]), *(list(each.values()) for each in rows)):
            book.active.append(line)
        book.save(path)
    else:
        lines = ["\t".join(rows[0]), *("\t".join(str(value) for value in each.values()) for each in rows)]
        path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", ["json", "tsv", "xlsx"])
async def test_predictions_are_scored_by_our_rules(tmp_path, options, form):
    right = [item.letter for item in PERCEPTION]
    said = [right[0], f"The answer is ({right[1]}).", "A or B", "Failed to obtain answer via API.", *right[4:]]
    summary = await import_predictions(predicted(tmp_path / f"p.{form}", options, said), options, tmp_path / "run")
    counts = summary.counts
    assert (counts.right, counts.wrong, counts.failed, counts.total) == (5, 1, 1, 7)
    assert counts.accuracy == pytest.approx(5 / 6)


async def test_a_judge_marks_open_predictions_and_rows_that_are_not_there_are_failed(tmp_path):
    mmsearch(tmp_path, KNOWLEDGE[:4])
    samples = resolve_suites(["mmsearch"], tmp_path)[0].load()
    said = [KNOWLEDGE[0].name, "The Old One", "Something else"]
    path = predicted(tmp_path / "p.json", samples, said)
    plain = await import_predictions(path, samples, tmp_path / "rules")
    judged = await import_predictions(path, samples, tmp_path / "judged", Judge(Marker(), attempts=1))
    assert (plain.counts.right, plain.counts.wrong, plain.counts.failed) == (1, 2, 1)
    assert (judged.counts.right, judged.counts.wrong, judged.counts.failed) == (2, 1, 1)
    assert compare(tmp_path / "rules", tmp_path / "judged").all.better == 1


def test_the_verbs_export_and_import(tmp_path, capsys):
    asked = items("rr")
    vstar_jsonl(tmp_path, asked)
    assert main(["bench", "export", "vlmevalkit", "vstar", str(tmp_path / "v.tsv"), "--data", str(tmp_path)]) == 0
    samples = resolve_suites(["vstar"], tmp_path)[0].load()
    path = predicted(tmp_path / "p.tsv", samples, [asked[0].letter, "none"])
    words = ["bench", "import", str(path), "vstar", "--data", str(tmp_path), "--run", str(tmp_path / "run")]
    assert main(words) == 0
    assert "50.0 %" in capsys.readouterr().out
    assert len(read_samples(tmp_path / "run")) == 2
    assert main(["report", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.tsv", None, "no such file"),
        ("p.pkl", "x", "predictions are an .xlsx"),
        ("p.json", "{}", "predictions are an .xlsx"),
        ("p.tsv", "index\tanswer\n0\tA\n", "a column `prediction` is expected"),
        ("p.tsv", "index\tprediction\n99\tA\n", "neither its id nor its index '99'"),
        ("p.xlsx", "no sheet", "cannot be read as .xlsx"),
    ],
)
async def test_predictions_that_cannot_be_read_are_one_line(tmp_path, options, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(UserError, match=r"^[^\n]*$") as caught:
        await import_predictions(tmp_path / name, options, tmp_path / "run")
    assert said in str(caught.value)
    assert not (tmp_path / "run" / "config.json").exists()
