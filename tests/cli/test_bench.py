import json

import pytest

from tests.bench.suites.items import KNOWLEDGE, PERCEPTION
from tests.bench.suites.published import PUBLISHED, released
from vlagent.bench.suites import SUITES
from vlagent.cli.main import main


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.delenv("VLAGENT_DATA", raising=False)
    PUBLISHED["mmsearch", "parquet"](tmp_path, KNOWLEDGE)
    PUBLISHED["vstar", "jsonl"](tmp_path, PERCEPTION)
    return tmp_path


def test_every_suite_is_listed_with_its_size_and_sources(data, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["bench", "list", "--data", str(data)]) == 0
    said = capsys.readouterr().out
    for name, suite in SUITES.items():
        line = next(line for line in said.splitlines() if line.startswith(f"{name} "))
        assert (str(suite.items) if suite.items else "any") in line
        assert ("here" in line.split()) is (name in ("mmsearch", "vstar"))
    assert "jsonl: unverified:" in said
    assert "CaraJ7/MMSearch" in said


def test_the_list_is_json_for_programs(data, capsys):
    assert main(["bench", "list", "--data", str(data), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["hr_mmsearch"]["items"] == 305
    assert [layout["verified"] for layout in found["hr_mmsearch"]["layouts"]] == [True, False, True]
    assert found["mmsearch"]["found"] == str(data / "mmsearch" / "end2end.parquet")
    assert found["toy"]["found"] is None


def test_a_suite_is_checked_against_its_published_size(data, capsys):
    assert main(["bench", "check", "mmsearch", "--data", str(data)]) == 2
    assert "mmsearch: 9 rows, 171 are expected" in capsys.readouterr().out
    assert main(["bench", "check", "vstar", "--data", str(data), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["counts"] == {"count": 1}


def test_overlap_with_training_data_is_reported(data, capsys):
    released(data / "train", "fvqa_train", KNOWLEDGE[:4], options=False)
    train = str(data / "train" / "test_all.json")
    assert main(["bench", "check", "mmsearch", "--data", str(data), "--train", train, "--list", "1"]) == 2
    said = capsys.readouterr().out
    assert "overlap: 4" in said
    assert "mm-0: the same question about the same picture is trained on" in said
    assert "and 3 more" in said


def test_a_sound_manifest_is_exit_code_0(data, capsys):
    released(data / "own", "mine", KNOWLEDGE[:3], options=False)
    assert main(["bench", "check", str(data / "own" / "test_all.json"), "--quick"]) == 0
    assert "nothing found (3 pictures looked at)" in capsys.readouterr().out


def test_several_suites_are_evaluated_in_one_run(data, capsys, monkeypatch):
    monkeypatch.chdir(data)
    (data / "script.json").write_text(json.dumps(["<think>t</think><answer>A</answer>"]))
    words = ["--model", "scripted:script.json", "--workflow", "direct", "--run", "run", "--k", "1"]
    assert main(["eval", "mmsearch,vstar", "--data", str(data), *words]) == 0
    assert "9 questions, the published set has 171" in capsys.readouterr().err
    suites = json.loads((data / "run" / "summary.json").read_text())["suites"]
    assert list(suites) == ["mmsearch", "vstar"]
    assert suites["vstar"]["counts"]["right"] == sum(item.letter == "A" for item in PERCEPTION)


def test_each_suite_has_its_published_number_of_rollouts_unless_one_is_given(data, capsys):
    words = ["eval", "mmsearch,vstar", "--data", str(data), "--model", "x", "--base-url", "http://127.0.0.1:9"]
    assert main([*words, "--dry-run"]) == 0
    each = capsys.readouterr().out
    assert main([*words, "--dry-run", "--k", "1"]) == 0
    assert each != capsys.readouterr().out


def test_data_check_and_fetch_are_the_same_verbs(data, capsys):
    released(data / "own", "mine", KNOWLEDGE[:3], options=False)
    assert main(["data", "check", str(data / "own" / "test_all.json")]) == 0
    assert main(["data", "check", "mmsearch", "--data", str(data)]) == 2
    assert main(["data", "fetch", "infoseek", str(data)]) == 2
    assert "on no hub" in capsys.readouterr().err
