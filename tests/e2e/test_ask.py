"""`vlagent ask` as a user calls it: exit codes, one line where something is wrong, one object with --json."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.e2e.conftest import Cli
from tests.fakes.brains import always, lines
from tests.fakes.openai_server import FakeOpenAI, Fault
from vlagent.data.manifest import load_samples
from vlagent.files import read_records
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world
from vlagent.types import Sample, StopReason, Trajectory

CROP = (
    '<think>closer</think><tool_call>{"name": "image_crop", "arguments": '
    '{"bbox": [0, 0, 500, 500], "image_index": 0}}</tool_call>'
)
ANSWER = "<think>clear</think><answer>It is blue.</answer>"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.new("RGB", (320, 240), (0, 0, 255)).save(path)
    return path


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(lines(CROP, ANSWER)) as fake:
        yield fake


def the_run(cli: Cli) -> Path:
    (run,) = (cli.folder / "runs").iterdir()
    return run


def the_trajectory(run: Path) -> Trajectory:
    (trajectory,) = read_records(run / "trajectories.jsonl", Trajectory)
    return trajectory


def wait_until(condition: object, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)


def test_the_answer_is_on_stdout_and_every_step_on_stderr(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    done = cli.ask(server, photo, "Which colour?")
    assert done.returncode == 0
    assert done.stdout.startswith("It is blue.\n")
    assert "Traceback" not in done.stderr
    for part in ("Turn 1", "closer", "image_crop", "160 x 120", "Turn 2"):
        assert part in done.stderr


def test_the_run_folder_holds_everything(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    cli.ask(server, photo, "Which colour?", "--run", "here")
    run = cli.folder / "here"
    assert the_trajectory(run).answer == "It is blue."
    (sample,) = read_records(run / "samples.jsonl", Sample)
    assert sample.question == "Which colour?"
    (crop,) = (run / "images").iterdir()
    with Image.open(crop) as image:
        assert image.size == (160, 120)
    config = json.loads((run / "config.json").read_text())
    assert (config["model"], config["agent"]["workflow"]) == ("fake-vlm", "agent")
    assert "It is blue." in (run / "report.html").read_text()


def test_the_key_is_nowhere_in_the_run_folder(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    done = cli.ask(server, photo, "Which colour?")
    texts = [path.read_bytes() for path in the_run(cli).rglob("*") if path.is_file()]
    assert not any(str(cli.key).encode() in text for text in [*texts, done.stdout.encode(), done.stderr.encode()])


def test_json_prints_one_object_of_exactly_this_shape(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    done = cli.ask(server, photo, "Which colour?", "--json")
    value = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert list(value) == ["answer", "sources", "stop", "turns", "usage", "run"]
    assert (value["answer"], value["stop"], value["sources"]) == ("It is blue.", "answered", [])
    first, last = value["turns"]
    assert list(first) == ["think", "call", "repairs", "observation"]
    assert first["call"] == {"name": "image_crop", "arguments": {"bbox": [0, 0, 500, 500], "image_index": 0}}
    assert list(first["observation"]) == ["text", "images", "fault"]
    assert first["observation"]["images"] == [
        {"path": str(photo), "width": 160, "height": 120, "box": [0, 0, 160, 120]}
    ]
    assert (last["call"], last["observation"], first["observation"]["fault"]) == (None, None, None)
    assert value["usage"]["calls"] == 2
    assert (cli.folder / value["run"] / "trajectories.jsonl").exists()


def test_a_repair_is_listed(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(lines(CROP.replace('"image_index": 0', '"image_index": "0"'), ANSWER)) as server:
        _, value = cli.ask_json(server, photo, "Which colour?")
    assert "image_index" in value["turns"][0]["repairs"]


def test_a_wrong_call_is_the_models_fault_and_the_episode_goes_on(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(lines(CROP.replace("image_crop", "sing"), ANSWER)) as server:
        code, value = cli.ask_json(server, photo, "Which colour?")
    assert code == 0
    assert value["turns"][0]["observation"]["fault"] == "model"


def test_a_dead_endpoint_is_one_line_and_exit_3(cli: Cli, photo: Path) -> None:
    done = cli("ask", photo, "What?", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--attempts", "1")
    assert done.returncode == 3
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "127.0.0.1:9" in done.stderr


def test_a_dead_endpoint_with_json_still_prints_the_object(cli: Cli, photo: Path) -> None:
    words = ("ask", photo, "What?", "--base-url", "http://127.0.0.1:9/v1", "--model", "m", "--attempts", "1", "--json")
    done = cli(*words)
    assert (done.returncode, json.loads(done.stdout)["stop"]) == (3, "model_failure")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "no such picture"), (b"", "not a picture"), (b"\x89PNG\r\n\x1a\n broken", "not a picture")],
)
def test_a_missing_or_unreadable_picture_is_one_line_and_exit_2(
    cli: Cli, server: FakeOpenAI, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "bad.png"
    if content is not None:
        path.write_bytes(content)
    done = cli.ask(server, path, "What?")
    assert done.returncode == 2
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "bad.png" in done.stderr
    assert words in done.stderr
    assert not (cli.folder / "runs").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--dialect", "klingon"], "klingon"),
        (["--tools", "image_crop,sing"], "sing"),
        (["--max-turns", "0"], "max_turns"),
        (["--workflow", "rag"], "--search"),
        (["--tools", "text_search"], "--search"),
        (["--search", "nowhere"], "nowhere"),
        (["--prompts", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it(
    cli: Cli, server: FakeOpenAI, photo: Path, words: list[str], named: str
) -> None:
    done = cli.ask(server, photo, "What?", *words)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert named in done.stderr


def test_a_forgotten_question_is_said(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    done = cli.ask(server, photo, photo)
    assert done.returncode == 2
    assert "question" in done.stderr


def test_without_a_model_the_shipped_one_answers_and_is_named(cli: Cli, tmp_path: Path) -> None:
    """Asked about the only world that it knows."""
    pytest.importorskip("torch", reason="models in this process need the extra [train]")
    world = tmp_path / "world"
    make_world(world, WorldConfig(seed=4, per_kind={"test": 1}, system_prompt=SYSTEM_PROMPT))
    sample = next(sample for sample in load_samples(f"{world / 'manifest.json'}:toy_test") if "say" in sample.question)
    done = cli("ask", sample.images[0].path, sample.question, "--search", world / "test" / "search")
    assert "shipped:rl" in done.stderr
    assert "--base-url" in done.stderr
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_wrong_key_is_one_line_and_exit_3_without_the_key(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    cli.key = "sk-wrong-and-secret"
    done = cli.ask(server, photo, "What?", "--model", "fake-vlm")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "secret" not in done.stderr


def test_azure_openai_works_with_its_own_address_and_key(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    cli.key_name = "AZURE_OPENAI_API_KEY"
    done = cli("ask", photo, "What?", "--base-url", server.azure_url, "--model", "fake-vlm")
    assert done.returncode == 0, done.stderr
    assert all("api-version=" in seen.path and "authorization" not in seen.headers for seen in server.seen)
    done = cli("ask", photo, "What?", "--base-url", server.azure_url)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_filtered_prompt_is_one_line_and_exit_3(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    server.always = Fault("filter_prompt")
    done = cli.ask(server, photo, "What?", "--model", "fake-vlm")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "content filter" in done.stderr


def test_the_turn_limit_is_exit_4_and_kept(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(always(CROP)) as server:
        done = cli.ask(server, photo, "What?", "--max-turns", "2")
    assert done.returncode == 4
    assert "turn_limit" in done.stderr
    assert the_trajectory(the_run(cli)).stop is StopReason.TURN_LIMIT


def test_passing_faults_are_retried_and_nobody_notices(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    server.faults.append(Fault("500"))
    code, value = cli.ask_json(server, photo, "What?", "--model", "fake-vlm")
    assert (code, value["answer"]) == (0, "It is blue.")


def test_an_endpoint_killed_in_mid_run_is_exit_3_and_the_turns_are_kept(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(always(CROP)) as server:
        server.faults.extend([])
        process = cli.start(
            "ask", photo, "What?", "--base-url", server.base_url, "--attempts", "1", "--model", "fake-vlm", "--json"
        )
        wait_until(lambda: server.seen)
        server.always = Fault("reset")
        stdout, stderr = process.communicate(timeout=60)
    value = json.loads(stdout)
    assert (process.returncode, value["stop"]) == (3, "model_failure")
    assert len(value["turns"]) >= 1
    assert "no answer: model_failure" in stderr


def test_ctrl_c_is_130_and_the_run_folder_is_kept(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(always(CROP)) as server:
        process = cli.start("ask", photo, "What?", "--base-url", server.base_url, "--model", "fake-vlm")
        wait_until(lambda: server.seen)
        server.always = Fault("hang")
        wait_until(lambda: len(server.seen) >= 2 and server.seen[-1].status == 0)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    trajectory = the_trajectory(the_run(cli))
    assert trajectory.stop is StopReason.CANCELLED
    assert trajectory.turns


def test_ctrl_c_at_the_confirmation_is_130_at_once(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    words = ("ask", photo, "What?", "--base-url", server.base_url, "--model", "fake-vlm", "--confirm")
    process = cli.start(*words, stdin=subprocess.PIPE)
    wait_until(lambda: server.seen and server.seen[-1].status == 200)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in stderr


def test_confirm_can_edit_a_call(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    typed = 'e\n{"bbox": [0, 0, 250, 250], "image_index": 0}\n'
    done = cli.ask(server, photo, "What?", "--confirm", typed=typed)
    assert done.returncode == 0
    first = the_trajectory(the_run(cli)).turns[0]
    assert first.edited_by == "user"
    assert first.observation is not None
    assert first.observation.images[0].width == 80


def test_confirm_can_refuse_and_stop(cli: Cli, photo: Path) -> None:
    with FakeOpenAI(always(CROP)) as server:
        done = cli.ask(server, photo, "What?", "--confirm", typed="r\nnot now\ns\n")
    assert done.returncode == 4
    trajectory = the_trajectory(the_run(cli))
    assert trajectory.stop is StopReason.STOPPED_BY_USER
    first = trajectory.turns[0].observation
    assert first is not None
    assert "not now" in first.text


def test_offline_works_on_loopback_and_refuses_the_rest(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    assert cli.ask(server, photo, "What?", "--offline").returncode == 0
    done = cli("ask", photo, "What?", "--offline", "--base-url", "https://api.openai.com/v1", "--model", "m")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "api.openai.com" in done.stderr
    assert cli("ask", photo, "What?", "--offline", "--model", "gpt-x").returncode == 2


def test_control_characters_of_the_model_do_not_reach_the_terminal(cli: Cli, photo: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b31m"
    with FakeOpenAI(lines(f"<think>{evil}</think><answer>x{evil}y</answer>")) as server:
        done = cli.ask(server, photo, "What?")
        as_json = cli.ask(server, photo, "What?", "--json")
    assert done.returncode == 0
    for text in (done.stdout, done.stderr, as_json.stdout, as_json.stderr):
        assert not any(character in text for character in "\x1b\x07\x9b")
    assert json.loads(as_json.stdout)["answer"] == f"x{evil}y"


def test_a_run_folder_in_use_is_not_overwritten(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    assert cli.ask(server, photo, "What?", "--run", "mine").returncode == 0
    done = cli.ask(server, photo, "What?", "--run", "mine")
    assert done.returncode == 2
    assert "mine" in done.stderr


def test_the_page_can_be_written_again(cli: Cli, server: FakeOpenAI, photo: Path) -> None:
    cli.ask(server, photo, "What?", "--run", "mine")
    (cli.folder / "mine" / "report.html").unlink()
    done = cli("report", "mine")
    assert done.returncode == 0
    assert Path(done.stdout.strip()).exists()
    assert cli("report", "nothing").returncode == 2
