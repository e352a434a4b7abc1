import json
import sys

import pytest

from tests.bench.world import Adder, YesMan, judging, questions, run_here
from vlagent.bench.agreement import Agreement, PairAgreement
from vlagent.bench.compare import compare
from vlagent.bench.config import read_config
from vlagent.bench.rescore import copy_run, rescore
from vlagent.chat.base import ChatReply
from vlagent.cli.main import main
from vlagent.cli.rescore import agreement_table
from vlagent.cli.terminal import console_for
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.rewards.judge import Judge
from vlagent.rewards.matcher import Matcher
from vlagent.rewards.opinions import OPINIONS
from vlagent.types import EvalRow

OPEN = {"answers": ("no number",)}


def open_questions(count):
    return [sample.model_copy(update=OPEN) for sample in questions(count)]


def rows(run):
    return list(read_records(run / "rows.jsonl", EvalRow))


async def test_another_judge_changes_the_score_and_no_episode_is_played(tmp_path):
    await run_here(tmp_path, open_questions(6))
    played = (tmp_path / "trajectories.jsonl").read_bytes()
    before = rows(tmp_path)
    judge = judging()
    result = await rescore(tmp_path, judge, {"judge_model": "yes"})
    assert (result.episodes, result.changed, judge.model.calls) == (6, 6, 6)
    assert result.summary.counts.right == 6
    assert result.summary.scoring == "rules, then judge yes"
    assert (tmp_path / "trajectories.jsonl").read_bytes() == played
    assert list(read_records(tmp_path / "rows.before-1.jsonl", EvalRow)) == before
    assert read_config(tmp_path).judge_model == "yes"
    assert (await run_here(tmp_path, open_questions(6), judge_model="yes", judge=judging())).ended == "complete"


async def test_a_run_whose_judge_was_down_gets_its_verdicts(tmp_path):
    options = {"judge_model": "yes", "max_failed_share": 1.0}
    await run_here(tmp_path, open_questions(5), judge=judging(down=True), **options)
    assert {row.outcome for row in rows(tmp_path)} == {"failed"}
    result = await rescore(tmp_path, judging(), {})
    assert (result.summary.counts.right, result.summary.counts.failed, result.changed) == (5, 0, 5)


async def test_a_run_without_any_row_is_scored(tmp_path):
    await run_here(tmp_path, questions(8))
    before = rows(tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    result = await rescore(tmp_path, None, {})
    assert (rows(tmp_path), result.changed) == (before, 8)


async def test_what_never_ended_stays_failed_whatever_the_judge_says(tmp_path):
    await run_here(tmp_path, open_questions(4), Adder(down_for={"sums-001"}), max_failed_share=1.0)
    result = await rescore(tmp_path, judging(), {"judge_model": "yes"})
    assert (result.summary.counts.right, result.summary.counts.failed) == (3, 1)
    assert result.judge_failed == 0


async def test_a_judge_that_dies_in_the_middle_leaves_failed_rows_and_the_next_try_asks_for_these_alone(tmp_path):
    await run_here(tmp_path, open_questions(6))

    class Dying(YesMan):
        async def complete(self, request):
            if self.calls == 2:
                self.down = True
            return await super().complete(request)

    log = tmp_path / OPINIONS
    result = await rescore(tmp_path, Judge(Dying(), attempts=1, log=log), {"judge_model": "yes"})
    counts = result.summary.counts
    assert (counts.right, counts.wrong, counts.failed, result.judge_failed) == (2, 0, 4, 4)
    again = Judge(YesMan(), attempts=1, log=log)
    result = await rescore(tmp_path, again, {"judge_model": "yes"})
    assert (result.summary.counts.right, again.model.calls) == (6, 4)


async def test_a_copy_is_scored_apart_and_can_be_compared(tmp_path):
    await run_here(tmp_path / "run", open_questions(4))
    copy_run(tmp_path / "run", tmp_path / "matched")
    await rescore(tmp_path / "matched", judging(), {"judge_model": "yes"})
    assert [row.outcome for row in rows(tmp_path / "run")] == ["wrong"] * 4
    assert compare(tmp_path / "run", tmp_path / "matched").all.better == 4
    with pytest.raises(UserError, match="--to"):
        copy_run(tmp_path / "run", tmp_path / "matched")


async def test_the_matcher_and_an_earlier_judge_are_held_against_each_other(tmp_path):
    samples = [s.model_copy(update={"answers": (f"{2 * n} sums",)}) for n, s in enumerate(questions(6))]
    await run_here(tmp_path, samples, judge=Judge(YesMan(), log=tmp_path / OPINIONS), judge_model="yes")
    result = await rescore(tmp_path, Matcher(tmp_path / OPINIONS), {"judge_model": "matcher"})
    (pair,) = result.summary.judging.agreement.pairs
    assert (pair.first, pair.second, pair.answers) == ("yes", "matcher", 6)
    assert pair.only_first_yes + pair.both_yes == 6


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of four open questions that rules call wrong, and a judge's lines."""
    monkeypatch.chdir(tmp_path)
    rows = [{"id": f"q{n}", "question": "Which city?", "answer": "Paris"} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "model.json").write_text(json.dumps(["<answer>It is Paris.</answer>"]))
    (tmp_path / "no.json").write_text(json.dumps(["VERDICT: NO"]))
    (tmp_path / "yes.json").write_text(json.dumps(["VERDICT: YES"]))
    words = ["eval", "rows.jsonl", "--model", "scripted:model.json", "--workflow", "direct", "--run", "run"]
    assert main(words) == 0
    return tmp_path / "run"


def right(run="run"):
    with open(f"{run}/summary.json") as file:  # noqa: PTH123
        return json.load(file)["counts"]["right"]


def test_the_verb_scores_by_the_matcher_by_judges_and_by_rules_again(run, capsys):
    assert right() == 0
    assert main(["rescore", "run", "--judge-model", "matcher"]) == 0
    assert right() == 4
    assert main(["rescore", "run", "--judge-model", "scripted:no.json,matcher"]) == 0
    said = capsys.readouterr()
    assert right() == 0
    assert "Krippendorff" in said.out
    assert "4 of 4 episodes have another outcome now" in said.err
    assert main(["rescore", "run", "--judge-model", "scripted:no.json,matcher", "--judge-decides", "agree"]) == 0
    assert right() == 0
    assert json.loads((run / "summary.json").read_text())["counts"]["unscored"] == 4
    assert main(["rescore", "run", "--rules", "--to", "other"]) == 0
    assert json.loads((run.parent / "other" / "summary.json").read_text())["counts"]["wrong"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "no such file"),
        (["run", "--rules", "--judge-model", "x"], "--rules"),
        (["run", "--judge-model", "a,a"], "twice"),
        (
            ["run", "--judge-model", "a,b", "--judge-base-url", "http://x/v1,http://y/v1,http://z/v1"],
            "3 endpoints for 2",
        ),
        (["run", "--judge-price", "1"], "IN,OUT"),
        (["run", "--judge-base-url", "http://127.0.0.1:9/v1"], "--judge-base-url: there is no judge"),
        (["run", "--judge-decides", "agree"], "--judge-decides: there is no judge"),
        (["run", "--judge-cache", "c"], "--judge-cache: there is no judge"),
        (["run", "--judge-text-only"], "--judge-text-only: there is no judge"),
        (["run", "--judge-model", "gpt", "--offline", "--judge-base-url", "http://8.8.8.8/v1"], "8.8.8.8"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(run, capsys, words, said):
    before = (run / "rows.jsonl").read_bytes()
    assert main(["rescore", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1
    assert (run / "rows.jsonl").read_bytes() == before


def test_a_judge_that_is_down_is_exit_3_and_nothing_is_wrong(run, capsys):
    words = ["rescore", "run", "--judge-model", "gpt", "--judge-base-url", "http://127.0.0.1:9/v1", "--attempts", "1"]
    assert main(words) == 3
    counts = json.loads((run / "summary.json").read_text())["counts"]
    assert (counts["failed"], counts["wrong"], counts["right"]) == (4, 0, 0)
    assert "4 could not be judged" in capsys.readouterr().err


def test_a_judge_that_has_moved_is_asked_where_it_is_now(run, capsys):
    words = ["run", "--judge-model", "gpt", "--judge-base-url", "http://127.0.0.1:9/v1", "--attempts", "1"]
    assert main(["rescore", *words]) == 3
    moved = ["--judge-base-url", "http://127.0.0.1:7/v1"]
    assert main(["rescore", "run", *moved]) == 3
    assert read_config(run).judge_base_url == "http://127.0.0.1:7/v1"
    capsys.readouterr()
    assert main(["eval", "--resume", "run", "--judge-base-url", "http://127.0.0.1:5/v1"]) == 3
    assert "127.0.0.1:5" in capsys.readouterr().err


async def test_a_cut_reply_of_a_judge_is_no_verdict_on_scoring_again(tmp_path):
    class Cut(YesMan):
        async def complete(self, request):
            return ChatReply("VERDICT: YES", "length")

    await run_here(tmp_path, open_questions(3))
    result = await rescore(tmp_path, Judge(Cut(), attempts=2), {"judge_model": "yes"})
    assert (result.summary.counts.unscored, result.summary.counts.scored) == (3, 0)


def test_no_figure_of_the_agreement_is_cut_on_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    pair = {"first": "a-long-judge-name-72b-instruct", "second": "another-long-name", "answers": 12345, "share": 1.0}
    cells = {"both_yes": 10001, "only_first_yes": 10002, "only_second_yes": 10003, "both_no": 10004, "kappa": None}
    table = agreement_table(Agreement(answers=12345, judges={}, alpha=None, pairs=(PairAgreement(**pair, **cells),)))
    console_for(sys.stdout).print(table)
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert all(word in printed for word in ("100.0 %", "undefined", "12345", "10001", "10002", "10003", "10004"))
