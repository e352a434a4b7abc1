import csv
import io
import json

import pytest

from tests.bench.world import Adder, questions, run_here
from vlagent.bench.bad_cases import bad_cases
from vlagent.bench.results import FORMATS, harmless, published_rows, results, to_csv, to_latex, to_markdown
from vlagent.cli.main import main
from vlagent.errors import UserError
from vlagent.files import append_jsonl, read_records
from vlagent.types import EvalRow, Outcome


async def played(folder, count=20, source="hr_mmsearch", **changes):
    await run_here(folder, questions(count, source), **changes)
    return folder


async def test_a_score_stands_with_its_error_and_what_it_is_a_share_of(tmp_path):
    run = await played(tmp_path / "run")
    table = results([run])
    (row,) = table.rows
    score = row.scores["hr_mmsearch"]
    summary = json.loads((run / "summary.json").read_text())["suites"]["hr_mmsearch"]["counts"]
    assert (score.right, score.scored, score.value) == (summary["right"], 20, 100 * summary["accuracy"])
    assert score.note == "20 of 305 questions"
    text = to_markdown(table)
    assert f"{score.value:.2f} ± {score.error:.1f} ({score.right}/20)*" in text
    assert "- adder, hr_mmsearch: 20 of 305 questions" in text


async def test_published_scores_stand_beside_ours_as_they_were_printed(tmp_path):
    run = await played(tmp_path / "run")
    alone, beside = results([run]), results([run], published=True)
    assert len(alone.rows) == 1
    text = to_markdown(beside)
    assert "| SenseNova-MARS-8B | agent | published | 41.64 |" in text
    assert "| SenseNova-MARS-8B | agent | reported by a user | 33.10 |" in text
    assert {row.origin for row in beside.rows} == {"run", "published", "reproduced"}
    assert all(set(row.scores) & {"hr_mmsearch"} for row in beside.rows)


async def test_entry_names_of_manifests_stand_for_their_suites(tmp_path):
    run = await played(tmp_path / "run", source="mmsearch_end2end_only_image")
    assert results([run]).suites == ("mmsearch",)


async def test_averages_are_those_of_the_published_tables_and_only_of_whole_groups(tmp_path):
    names = ("vstar", "hrbench_4k", "hrbench_8k", "mme_realworld")
    samples = [sample for name in names for sample in questions(5, name)]
    await run_here(tmp_path / "all", samples)
    await run_here(tmp_path / "some", samples[:15])
    whole, part = results([tmp_path / "all"]), results([tmp_path / "some"])
    assert whole.averages == ("high resolution",)
    scores = [whole.rows[0].scores[name].value for name in names]
    assert whole.rows[0].averages["high resolution"].value == pytest.approx(sum(scores) / 4)
    assert part.averages == ()
    published = results([tmp_path / "all"], published=True)
    mars = next(row for row in published.rows if row.model == "SenseNova-MARS-32B" and row.origin == "published")
    assert mars.averages["high resolution"].value == 85.9


async def test_several_rollouts_are_an_average(tmp_path):
    run = await played(tmp_path / "run", k=3)
    (row,) = results([run]).rows
    counts = json.loads((run / "summary.json").read_text())["suites"]["hr_mmsearch"]["counts"]
    assert row.scores["hr_mmsearch"].value == 100 * counts["avg_at_k"]
    assert row.scores["hr_mmsearch"].scored == 60


async def test_an_invalid_run_says_so_in_the_table(tmp_path):
    down = {f"hr_mmsearch-{n:03}" for n in range(10, 15)}
    run = tmp_path / "run"
    await run_here(run, questions(20, "hr_mmsearch"), Adder(down_for=down), max_failed_share=0.1, concurrency=1)
    assert "invalid" in to_markdown(results([run]))


async def test_csv_has_a_line_a_score_and_latex_marks_the_best(tmp_path):
    runs = [await played(tmp_path / "a"), await played(tmp_path / "b", seed=3)]
    table = results(runs, published=True)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == len(table.rows)
    assert lines[0]["source"] == str(runs[0])
    assert float(lines[0]["percent"]) == pytest.approx(table.rows[0].scores["hr_mmsearch"].value, rel=1e-3)
    latex = to_latex(table)
    best = max(row.scores["hr_mmsearch"].value for row in table.rows)
    assert latex.count("\\textbf{") == sum(row.scores["hr_mmsearch"].value == best for row in table.rows)
    assert "hr\\_mmsearch" in latex
    assert latex.count("\\midrule") == 3


def test_the_published_file_is_whole_and_its_misprint_is_kept():
    rows = {(row.model, row.workflow): row for row in published_rows() if row.origin == "published"}
    assert len(rows) >= 35
    odd = rows["Qwen3-VL-32B-Instruct", "direct"]
    assert odd.averages["search"].value == 35.22
    assert rows["SenseNova-MARS-8B", "agent"].scores.keys() >= {"mmsearch", "vstar", "mme_realworld"}


async def test_everything_that_is_not_right_is_in_the_table_of_bad_cases(tmp_path):
    down = {"sums-003"}
    result = await run_here(tmp_path, questions(20), Adder(down_for=down), max_failed_share=1.0, workflow="agent")
    lines = list(csv.DictReader(io.StringIO(bad_cases(tmp_path))))
    counts = result.summary.counts
    assert len(lines) == counts.wrong + counts.failed
    failed = next(line for line in lines if line["sample_id"] == "sums-003")
    assert (failed["outcome"], failed["stop"]) == ("failed", "model_failure")
    wrong = next(line for line in lines if line["outcome"] == "wrong")
    assert (wrong["question"][:8], wrong["tools"], wrong["turns"], wrong["by"]) == (
        "What is ",
        "text_search",
        "2",
        "rule",
    )


async def test_an_episode_that_became_right_when_it_was_retried_is_no_bad_case(tmp_path):
    await run_here(tmp_path, questions(20))
    before = bad_cases(tmp_path)
    row = next(row for row in read_records(tmp_path / "rows.jsonl", EvalRow) if row.outcome is Outcome.WRONG)
    append_jsonl(tmp_path / "rows.jsonl", row.model_copy(update={"outcome": Outcome.RIGHT}))
    assert row.sample_id in before
    assert row.sample_id not in bad_cases(tmp_path)


@pytest.mark.parametrize(
    ("cell", "safe"),
    [("=1+1", "'=1+1"), ("@x", "'@x"), ("-x", "'-x"), ("-1.5", "-1.5"), ("+1", "'+1"), ("a=b", "a=b"), ("", "")],
)
def test_no_cell_is_a_formula(cell, safe):
    assert harmless(cell) == safe


async def test_the_verb_prints_each_format_and_refuses_what_makes_no_sense(tmp_path, capsys):
    run = await played(tmp_path / "run", 4)
    for name, write in FORMATS.items():
        assert main(["report", str(run), "--table", name]) == 0
        assert capsys.readouterr().out == write(results([run]))
    assert main(["report", str(run), "--table", "markdown", "--published"]) == 0
    assert "GPT-5.2" in capsys.readouterr().out
    assert main(["report", str(run), "--bad-cases", str(tmp_path / "bad.csv")]) == 0
    assert (tmp_path / "bad.csv").read_text() == bad_cases(run)
    for words in (["--published"], ["--bad-cases", "x.csv", str(run)]):
        assert main(["report", str(run), *words]) == 2
    with pytest.raises(UserError):
        results([tmp_path / "nowhere"])
