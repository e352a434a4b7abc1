"""`vlagent serve stack`: what is printed, checked, started and stopped, and that the containers agree with it."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.fakes.web_server import Answer, Asked, Fake, as_json
from vlagent.cli import stack_profiles
from vlagent.cli.main import main
from vlagent.cli.stack import check
from vlagent.cli.stack_profiles import JUDGE, PROFILES, SUMMARISER, Service, Site
from vlagent.errors import TransientError, UserError
from vlagent.search.text_build import index_text

ROOT = Path(__file__).resolve().parents[2]
ENDPOINTS = ["search=10.0.0.2", "judge=10.0.0.3"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert main(["serve", "stack", *words, "--dry-run"]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_published_set_up_has_the_published_flags(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "mars-three-nodes", "--node", "search", "--address", "judge=10.0.0.3")
    assert lines[0] == "# judge: expected at http://10.0.0.3:8181"
    summariser = next(shlex.split(line) for line in lines if SUMMARISER in line)
    published = {
        "--dtype": "bfloat16",
        "--tp-size": "4",
        "--dp-size": "2",
        "--mem-fraction-static": "0.9",
        "--max-total-tokens": "262144",
        "--max-prefill-tokens": "65536",
        "--chunked-prefill-size": "16384",
        "--max-running-requests": "1024",
        "--port": "8123",
        "--host": "0.0.0.0",
    }
    assert {flag: summariser[summariser.index(flag) + 1] for flag in published} == published
    (line,) = printed(capsys, "mars-three-nodes", "--node", "judge", "--only", "judge")[-1:]
    judge = shlex.split(line)
    published = {
        "--model-path": JUDGE,
        "--dtype": "bfloat16",
        "--tp-size": "4",
        "--dp-size": "2",
        "--mem-fraction-static": "0.6",
        "--context-length": "40960",
        "--max-running-requests": "1024",
        "--chunked-prefill-size": "2048",
        "--torch-compile-max-bs": "64",
        "--port": "8181",
    }
    assert {flag: judge[judge.index(flag) + 1] for flag in published} == published
    assert "--enable-torch-compile" in judge
    assert "SGLANG_VLM_CACHE_SIZE_MB=8192" in judge


def test_on_one_machine_the_models_share_the_gpus_and_nothing_is_open_to_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(capsys, "one-node-8gpu", "--search", "live.toml", "--passages", "wiki")
    assert [line.split()[0] for line in lines[2:]] == [
        "CUDA_VISIBLE_DEVICES=0,1,2,3",
        "SGLANG_VLM_CACHE_SIZE_MB=8192",
    ]
    assert "CUDA_VISIBLE_DEVICES=4,5,6,7" in lines[3]
    assert all("--host 127.0.0.1" in line for line in lines)
    assert lines[0].startswith("vlagent serve retrieval wiki ")
    assert lines[1].startswith("vlagent serve search live.toml --local wiki ")


def test_the_training_machine_starts_nothing_and_expects_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "mars-three-nodes", "--node", "train", *[w for e in ENDPOINTS for w in ("--address", e)])
    assert len(lines) == 4
    assert all(line.startswith("# ") for line in lines)
    assert "# summariser: expected at http://10.0.0.2:8123" in lines


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nine-nodes"], "known are cpu, one-node-8gpu, mars-three-nodes"),
        (["mars-three-nodes"], "--node: which machine is this? train, search, judge"),
        (["mars-three-nodes", "--node", "x"], "--node x"),
        (["cpu", "--address", "judge=x"], "--address judge=x"),
        (["cpu", "--only", "judge"], "--only judge"),
        (["cpu"], "--search: name a live.toml"),
        (["cpu", "--search", "nowhere", "--only", "search"], "no such file"),
        (["cpu", "--search", "live.toml"], "--passages"),
        (["cpu", "--host", "0.0.0.0"], "--host: only for"),
    ],
)
def test_a_mistake_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "stack", *words]) == 2
    assert said in capsys.readouterr().err


def test_servers_that_others_call_need_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLAGENT_SERVER_KEY", raising=False)
    words = ["mars-three-nodes", "--node", "search", "--passages", str(tmp_path), "--only", "retrieval"]
    assert main(["serve", "stack", *words]) == 2
    assert "set VLAGENT_SERVER_KEY on all" in capsys.readouterr().err


class ModelServer(Fake):
    """An SGLang server as far as a check looks: `/health` and `/v1/models`."""

    model = SUMMARISER
    status = 200

    def reply(self, asked: Asked) -> Answer:
        if asked.path == "/v1/models":
            return as_json({"object": "list", "data": [{"id": self.model}]})
        return Answer(self.status if asked.path == "/health" else 404)


def test_a_remote_service_must_answer_and_serve_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("summariser", (), model=SUMMARISER)
    with ModelServer() as fake:
        monkeypatch.setitem(stack_profiles.PORTS, "summariser", fake.port)
        check(service, "127.0.0.1")
        fake.model = "another"
        with pytest.raises(UserError, match="does not serve"):
            check(service, "127.0.0.1")
        fake.status = 503
        with pytest.raises(TransientError, match="HTTP 503"):
            check(service, "127.0.0.1")
    with pytest.raises(TransientError, match="does not answer"):
        check(service, "127.0.0.1")


def test_a_stack_starts_answers_and_stops_as_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Belmont Tower was opened in 1931.")
    index_text([tmp_path / "a.txt"], tmp_path / "index")
    program = (
        "import sys; from vlagent.cli import stack_profiles as p; p.PORTS.update(search=18970, retrieval=18971); "
        "from vlagent.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    words = ["serve", "stack", "cpu", "--passages", str(tmp_path / "index")]
    environment = {name: value for name, value in os.environ.items() if name != "VLAGENT_SERVER_KEY"}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdout
    try:
        assert b"retrieval at port 18971 answers" in process.stdout.readline()
        assert b"search at port 18970 answers" in process.stdout.readline()
        body = {"query": "When was Belmont Tower opened?", "retrieval_mode": "local"}
        said = httpx.post("http://127.0.0.1:18970/search", json=body, trust_env=False, timeout=30)
        assert said.text == "Belmont Tower was opened in 1931."
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        time.sleep(0.1)
        with pytest.raises(httpx.ConnectError):
            httpx.get("http://127.0.0.1:18971/health", trust_env=False)
    finally:
        process.kill()


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
    return loaded


def test_the_containers_run_the_model_servers_of_the_profile() -> None:
    services = compose()["services"]
    for make in PROFILES["one-node-8gpu"]["all"][2:]:
        wanted = make(Site(host="0.0.0.0"))
        assert tuple(services[wanted.name]["command"].split()) == wanted.command
        gpus = ",".join(services[wanted.name]["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"])
        assert gpus == wanted.environment["CUDA_VISIBLE_DEVICES"]
    assert services["judge"]["environment"]["SGLANG_VLM_CACHE_SIZE_MB"] == "8192"


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "-c", "deploy/.hadolint.yaml", "deploy/Dockerfile"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml"],
    ],
)
def test_the_container_files_pass_their_linters(command: list[str]) -> None:
    program = Path(sys.executable).with_name(command[0])
    done = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
