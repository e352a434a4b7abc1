"""The verbs, one after the other, as a user types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.curate.bench.conftest import RULES, agree, scene, write
from vlagent.cli.main import main
from vlagent.curate.bench.folder import Bench, open_bench
from vlagent.files import read_json, write_atomic, write_json


def bench_verb(*words: object) -> int:
    return main(["curate", "bench", *map(str, words)])


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    """A model that never knows."""
    write_json(tmp_path / "wrong.json", ["<answer>nobody</answer>"])
    return f"scripted:{tmp_path / 'wrong.json'}"


def test_from_a_folder_of_pictures_to_a_set_that_is_scored(tmp_path: Path, wrong: str, capsys: Any) -> None:
    folder, out = tmp_path / "bench", tmp_path / "out"
    (tmp_path / "photos").mkdir()
    for seed in range(2):
        scene(tmp_path / "photos" / f"{seed}.png", seed)
    write_atomic(folder / "bench.toml", RULES)
    assert bench_verb("collect", tmp_path / "photos", folder, "--licence", "CC0", "--date", "2025-06-01") == 0
    assert bench_verb("filter", folder) == 0
    assert "2 of 2 pictures kept" in capsys.readouterr().out
    bench = open_bench(folder)
    item = write(bench, evidence=("evidence.txt",))
    agree(bench, item, "bob", "cyd")
    write_atomic(folder / "evidence.txt", "The Harbour Trust runs it.")
    assert bench_verb("publish", folder, out) == 2
    assert "not checked: leak, blind, no_tools, evidence; its difficulty is not measured" in capsys.readouterr().err

    assert bench_verb("check", folder, "--model", wrong, "--dry-run", "--price", "1,4") == 0
    said = capsys.readouterr().out
    assert "blind: 2 to do, about 2 calls" in said
    assert "$" in said
    assert not (folder / "checks.jsonl").exists()
    assert bench_verb("check", folder, "--model", wrong) == 0
    assert "4 checks passed, 0 failed, 0 undecided" in capsys.readouterr().out
    assert bench_verb("difficulty", folder, "--model", wrong, "--dry-run") == 0
    assert "difficulty: 8 to do" in capsys.readouterr().out
    assert bench_verb("difficulty", folder, "--model", wrong) == 0
    assert "now 1 of 1 are hard" in capsys.readouterr().out
    assert bench_verb("status", folder) == 0
    assert "1 ready to be published" in capsys.readouterr().out
    assert bench_verb("publish", folder, out) == 0
    run = tmp_path / "run"
    assert main(["eval", "hr_mmsearch", "--data", str(out), "--model", wrong, "--run", str(run)]) == 0
    summary = read_json(run / "summary.json")
    assert (summary["counts"]["total"], summary["counts"]["right"]) == (1, 0)
    assert "hard" in str(summary["suites"]["hr_mmsearch"]["slices"])


def test_a_failed_check_is_overruled_by_its_option(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    item = write(bench)
    write_json(tmp_path / "right.json", ["<answer>Harbour Trust</answer>"])
    bench_verb("check", bench.folder, "--no-pages", "--model", f"scripted:{tmp_path / 'right.json'}")
    assert "2 failed" in capsys.readouterr().out
    assert bench_verb("check", bench.folder, "--accept", f"{item.id}:blind") == 2
    assert bench_verb("check", bench.folder, "--accept", f"{item.id}:blind", "--because", "a lucky guess") == 0
    assert "accepted (a lucky guess)" in capsys.readouterr().out


def test_the_set_goes_out_to_label_studio_and_back_by_its_verbs(bench: Bench, tmp_path: Path, capsys: Any) -> None:
    write(bench)
    tasks = tmp_path / "tasks.json"
    assert bench_verb("annotate", bench.folder, "--export-label-studio", tasks) == 0
    assert bench_verb("annotate", bench.folder, "--import-label-studio", tasks) == 0
    assert "0 questions taken over as drafts, 1 known" in capsys.readouterr().out


def test_a_set_is_taken_over_by_its_verb(tmp_path: Path, capsys: Any) -> None:
    scene(tmp_path / "1.png", 1)
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "Who?", "answer": "X", "image": "1.png"}\n')
    assert bench_verb("annotate", tmp_path / "bench", "--import", rows, "--as", "old", "--licence", "CC0") == 0
    (item,) = open_bench(tmp_path / "bench").items().values()
    assert (item.author, item.answers, item.state) == ("old", ("X",), "draft")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["collect", "/nowhere", "B"], "no such file or folder"),
        (["collect", "x", "B", "--date", "soon"], "write it as 2025-01-31"),
        (["filter", "B"], "collect some"),
        (["publish", "B", "O"], "collect some"),
    ],
)
def test_mistakes_are_one_line_that_names_the_fix(
    words: list[str], said: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bench_verb(*words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("option", [["--temperature", "-1"], ["--concurrency", "0"], ["--dialect", "klingon"]])
def test_wrong_options_of_a_model_are_refused_before_it_is_asked(bench: Bench, wrong: str, option: list[str]) -> None:
    write(bench)
    assert bench_verb("check", bench.folder, "--model", wrong, *option) == 2
    assert not (bench.folder / "plays").exists()


def test_sealing_needs_its_password(bench: Bench, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.delenv("VLAGENT_BENCH_PASSWORD", raising=False)
    assert bench_verb("publish", bench.folder, tmp_path / "out", "--seal") == 2
    assert "VLAGENT_BENCH_PASSWORD" in capsys.readouterr().err
