import json

import pytest

from vlagent.bench.config import read_config
from vlagent.cli.main import main

WORDS = ["eval", "rows.jsonl", "--model", "scripted:model.json", "--workflow", "direct"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six open questions and a model that always says the same."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LLM_JUDGE_URL", raising=False)
    rows = [{"id": f"q{n}", "question": "Which city?", "answer": "Paris"} for n in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "model.json").write_text(json.dumps(["<answer>It is Paris.</answer>"]))
    (tmp_path / "no.json").write_text(json.dumps(["VERDICT: NO"]))
    return tmp_path


def counts(run):
    return json.loads((run / "summary.json").read_text())["counts"]


def test_a_dry_run_says_what_it_takes_and_writes_nothing(folder, capsys):
    assert main([*WORDS, "--dry-run", "--price", "1,2", "--run", "run"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("estimate: 6 questions, 6 episodes")
    assert "$" in said
    assert not (folder / "run").exists()
    assert main([*WORDS, "--dry-run", "--k", "3"]) == 0
    assert "18 episodes" in capsys.readouterr().out


def test_an_estimate_stands_before_a_run_and_can_rest_on_an_earlier_one(folder, capsys):
    assert main([*WORDS, "--run", "run"]) == 0
    assert "vlagent: estimate: 6 questions" in capsys.readouterr().err
    assert main([*WORDS, "--dry-run", "--like", "run"]) == 0
    assert "(run: 1.0 turns" in capsys.readouterr().out


def test_the_local_matcher_and_a_second_judge_stand_in_the_configuration(folder):
    assert main([*WORDS, "--run", "a", "--judge-model", "matcher"]) == 0
    assert counts(folder / "a")["right"] == 6
    judges = "matcher,scripted:no.json"
    assert main([*WORDS, "--run", "b", "--judge-model", judges, "--judge-decides", "agree"]) == 0
    assert counts(folder / "b")["unscored"] == 6
    config = read_config(folder / "b")
    assert (config.judges, config.judge_decides) == (("matcher", "scripted:no.json"), "agree")


def test_verdicts_can_be_shared_between_runs(folder):
    words = [*WORDS, "--judge-model", "scripted:no.json", "--judge-cache", "verdicts.jsonl"]
    assert main([*words, "--run", "a"]) == 0
    assert main([*words, "--run", "b"]) == 0
    judged = [json.loads((folder / run / "summary.json").read_text())["judging"]["judges"]["no"] for run in "ab"]
    assert [(each["asked"], each["cached"]) for each in judged] == [(1, 5), (0, 6)]


def test_a_run_that_is_out_of_time_ends_with_exit_4_and_can_go_on(folder, capsys):
    assert main([*WORDS, "--run", "run", "--max-minutes", "1e-9"]) == 4
    assert "the time of the run is used up" in capsys.readouterr().err
    assert main(["eval", "--resume", "run", "--max-minutes", "5"]) == 0
    assert counts(folder / "run")["scored"] == 6
    assert read_config(folder / "run").limits.time_s is not None


def test_the_pace_can_be_fixed_and_prices_are_kept(folder):
    judge = ["--judge-model", "scripted:no.json", "--judge-price", "3,4"]
    assert main([*WORDS, "--run", "run", "--fixed-pace", "--price", "1,2", *judge]) == 0
    config = read_config(folder / "run")
    assert not config.adaptive
    assert config.prices.model_dump() == {
        "prompt": 1.0,
        "completion": 2.0,
        "judge_prompt": 3.0,
        "judge_completion": 4.0,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--budget", "1"], "--price"),
        (["--budget", "0", "--price", "1,1"], "limits.budget_usd"),
        (["--price", "1"], "IN,OUT"),
        (["--price=-1,2"], "not negative"),
        (["--judge-decides", "coin"], "--judge-decides"),
        (["--like", "nowhere", "--dry-run"], "nowhere"),
        (["--max-minutes", "-1"], "limits.time_s"),
    ],
)
def test_a_mistake_is_one_line(folder, capsys, words, said):
    assert main([*WORDS, *words]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1
