import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.data.files import entry, row, write_manifest, write_picture, write_rows
from vlagent.cli.main import main

RIGHT = "<think>t</think><answer>Paris</answer>"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Rows about one picture, a model that says Paris, and a judge that says yes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VLAGENT_DATA", raising=False)
    monkeypatch.delenv("LLM_JUDGE_URL", raising=False)
    write_picture(tmp_path / "data" / "a.png")
    truths = ["Paris", "Lyon", "paris.", "Rome"]
    rows = [row(id=f"q{n}", kind="x", reward_model={"ground_truth": truth}) for n, truth in enumerate(truths)]
    write_rows(tmp_path / "data" / "rows.jsonl", *rows)
    (tmp_path / "paris.json").write_text(json.dumps([RIGHT]))
    (tmp_path / "judge.json").write_text(json.dumps(["VERDICT: YES"]))
    return tmp_path


def evaluate(*words):
    return main(["eval", "data/rows.jsonl", "--model", "scripted:paris.json", "--workflow", "direct", *words])


def summary(run="run"):
    with open(f"{run}/summary.json") as file:  # noqa: PTH123
        return json.load(file)


def test_an_evaluation_prints_its_table_and_keeps_its_folder(folder, capsys):
    assert evaluate("--run", "run") == 0
    said = capsys.readouterr()
    assert "50.0 %" in said.out
    assert "2/4" in said.out
    assert "run/summary.json" in said.err
    assert "vlagent report run" in said.err
    assert summary()["counts"]["right"] == 2
    for name in ("config.json", "samples.jsonl", "trajectories.jsonl", "rows.jsonl"):
        assert (folder / "run" / name).exists()


def test_without_an_index_it_is_said_that_nothing_can_be_searched(folder, capsys):
    words = ["eval", "data/rows.jsonl", "--model", "scripted:paris.json", "--limit", "1", "--run"]
    assert main([*words, "all"]) == 0
    assert "no --search: the only tools were image_crop" in capsys.readouterr().err
    assert main([*words, "some", "--tools", "image_crop"]) == 0
    assert main([*words, "none", "--workflow", "direct"]) == 0
    assert "no --search" not in capsys.readouterr().err


def test_a_run_is_resumed_with_its_own_configuration(folder, capsys):
    assert evaluate("--run", "run", "--limit", "3") == 0
    (folder / "run" / "rows.jsonl").unlink()
    (folder / "data" / "rows.jsonl").unlink()
    assert main(["eval", "--resume", "run"]) == 0
    assert summary()["counts"]["total"] == 3


def test_a_resumed_run_takes_no_other_configuration(folder, capsys):
    assert evaluate("--run", "run") == 0
    assert main(["eval", "--resume", "run", "--k", "2"]) == 2
    assert "k was 1 and is now 2" in capsys.readouterr().err
    assert main(["eval", "--resume", "run", "--temperature", "1"]) == 2
    assert "temperature" in capsys.readouterr().err
    assert main(["eval", "--resume", "run", "--concurrency", "2"]) == 0
    assert evaluate("--run", "run", "--limit", "2") == 2


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        (["--limit", "3"], ["counts", "total"], 3),
        (["--k", "2"], ["counts", "total"], 8),
        (["--judge-model", "scripted:judge.json"], ["counts", "right"], 4),
        (["--temperature", "0.5"], ["sampling", "temperature"], 0.5),
        (["--preset", "released"], ["sampling", "presence_penalty"], 1.5),
        (["--preset", "released", "--temperature", "0"], ["sampling", "temperature"], 0.0),
        (["--pixels", "qwen2.5-vl"], ["pixels", "factor"], 28),
        (["--dialect", "mars-released"], ["suites", "data", "behaviour", "format_rate"], 0.0),
        (["--workflow", "agent", "--max-turns", "1"], ["workflow"], "agent"),
    ],
)
def test_each_option_shows_in_the_result(folder, words, path, value):
    assert evaluate("--run", "run", *words) == 0
    found = summary()
    for name in path:
        found = found[name]
    assert found == value


def test_the_options_of_a_run_stand_in_its_configuration(folder):
    (folder / "prompts.toml").write_text('system = "Mine: {tools}"\n')
    words = ["--seed", "9", "--top-k", "2", "--crop-source", "view", "--max-turns", "4", "--time-limit", "60"]
    limits = ["--tool-limit", "image_crop=3", "--model-limit", "2", "--max-failed-share", "0.5", "--concurrency", "3"]
    limits += ["--judge-model", "scripted:judge.json", "--judge-text-only"]
    assert evaluate("--run", "run", *words, *limits, "--tools", "image_crop,calculator") == 0
    config = json.loads((folder / "run" / "config.json").read_text())
    agent = config["agent"]
    assert (agent["seed"], agent["top_k"], agent["crop_source"]) == (9, 2, "view")
    assert (agent["max_turns"], agent["time_limit_s"], agent["tools"]) == (4, 60.0, ["image_crop", "calculator"])
    assert (config["model_limit"], config["tool_limits"], config["concurrency"]) == (2, {"image_crop": 3}, 3)
    assert (config["max_failed_share"], config["judge_with_images"]) == (0.5, False)


def test_a_suite_is_found_in_the_manifest_of_the_data_folder(folder, capsys):
    write_manifest(folder, mmsearch_end2end_only_image=entry(length=4))
    words = ["--model", "scripted:paris.json", "--workflow", "direct", "--run"]
    assert main(["eval", "mmsearch", "--data", ".", *words, "run"]) == 0
    assert "4 questions, the published set has 171" in capsys.readouterr().err
    assert summary()["suites"].keys() == {"mmsearch_end2end_only_image"}
    write_manifest(folder, vstar_bench=entry(length=4, reward_fn=["em_score_mcq"]))
    assert main(["eval", "vstar", "--data", ".", *words, "eight"]) == 0
    assert summary("eight")["k"] == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["eval"], "what is to be run"),
        (["eval", "nowhere"], "neither a file nor a suite"),
        (["eval", "mmsearch", "--model", "x"], "--data"),
        (["eval", "data/rows.jsonl", "--model", "x", "--k", "0"], "k = 0"),
        (["eval", "data/rows.jsonl", "--model", "x", "--dialect", "latin"], "latin"),
        (["eval", "data/rows.jsonl", "--model", "x", "--tool-limit", "a"], "TOOL=N"),
        (
            ["eval", "data/rows.jsonl", "--base-url", "http://127.0.0.1:9", "--model", "x", "--tools", "hammer"],
            "hammer",
        ),
        (
            ["eval", "data/rows.jsonl", "--base-url", "http://127.0.0.1:9", "--model", "x", "--workflow", "rag"],
            "no text index",
        ),
        (["eval", "--resume", "nowhere"], "no such file"),
        (["eval", "--resume", "data", "--run", "other"], "leave --run out"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_2(folder, capsys, words, said):
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_an_endpoint_that_is_down_ends_with_exit_3_and_how_to_go_on(folder, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    words = ["--model", "m", "--base-url", url, "--attempts", "1", "--workflow", "direct", "--run", "run"]
    assert main(["eval", "data/rows.jsonl", *words]) == 3
    said = capsys.readouterr().err
    assert "episodes failed" in said
    assert "vlagent eval --resume run" in said
    assert summary()["counts"]["wrong"] == 0


class Silent(BaseHTTPRequestHandler):
    """An endpoint that never answers in time."""

    def do_POST(self):
        time.sleep(30)

    def log_message(self, *args):
        pass


def test_ctrl_c_ends_with_exit_130_and_the_run_can_go_on(folder):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    words = ["data/rows.jsonl", "--model", "m", "--base-url", url, "--workflow", "direct", "--run", "run"]
    command = [sys.executable, "-m", "vlagent", "eval", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ))
    while not (folder / "run" / "config.json").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    server.shutdown()
    assert process.returncode == 130
    assert b"vlagent eval --resume run" in err
    assert b"Traceback" not in err
    counts = summary()["counts"]
    assert (counts["total"], counts["not_counted"] + counts["pending"]) == (0, 4)


def test_two_runs_are_compared_with_what_changed(folder, capsys):
    (folder / "lyon.json").write_text(json.dumps([RIGHT.replace("Paris", "Lyon")]))
    evaluate("--run", "a")
    main(["eval", "data/rows.jsonl", "--model", "scripted:lyon.json", "--workflow", "direct", "--run", "b"])
    capsys.readouterr()
    assert main(["compare", "a", "b"]) == 0
    said = capsys.readouterr().out
    assert "-25.0" in said
    assert "Better (1)" in said
    assert "q1: Paris -> Lyon, accepted: Lyon" in said
    assert main(["compare", "a", "b", "--list", "0"]) == 0
    assert "and 2 more" in capsys.readouterr().out
    assert main(["compare", "a", "b", "a", "--json", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["all"]["difference"] for each in found] == [-0.25, 0.0]
    assert main(["compare", "a"]) == 2
