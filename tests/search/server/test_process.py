"""A server as a process: it starts, logs, and finishes what it has begun when it is told to stop."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.fakes.search_engines import KEY, Serper
from vlagent.cli.main import main

CALLER = "the-key-of-a-caller"
SECRET_QUERY = "a question that nobody else should read"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(*words: str, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    port = free_port()
    command = [sys.executable, "-m", "vlagent", "serve", *words, "--port", str(port)]
    environment = {**os.environ, "VLAGENT_SERPER_KEY": KEY, "VLAGENT_SERVER_KEY": CALLER}
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stderr=file, stdout=file)
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
                break
            except httpx.HTTPError:
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_a_server_that_is_told_to_stop_ends_its_answers_and_its_log_holds_neither_queries_nor_keys(
    tmp_path: Path,
) -> None:
    with Serper(lambda _: [], delay_s=1.5) as serper:
        (tmp_path / "live.toml").write_text(
            f'cache = false\n[text]\nprovider = "serper"\nbase_url = "{serper.url}"\nread_pages = false\n'
        )
        log = tmp_path / "log"
        with server("search", str(tmp_path / "live.toml"), log=log) as (process, url):
            said: list[httpx.Response] = []
            headers = {"x-api-key": CALLER}

            def ask() -> None:
                body = {"query": SECRET_QUERY}
                said.append(httpx.post(f"{url}/search", json=body, headers=headers, trust_env=False, timeout=60))

            asking = threading.Thread(target=ask)
            asking.start()
            while not serper.seen:
                time.sleep(0.02)
            process.send_signal(signal.SIGTERM)
            asking.join()
            assert said[0].status_code == 200
            assert process.wait(30) == 0
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{url}/health", trust_env=False)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (request,) = [line for line in lines if line.get("path") == "/search"]
    assert request["status"] == 200
    assert request["ms"] >= 1000
    for secret in (SECRET_QUERY, SECRET_QUERY.split()[1], KEY, CALLER):
        assert secret not in log.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search"], "name a live.toml"),
        (["retrieval", "live.toml"], "a search folder is expected"),
        (["search", "nowhere"], "no such folder"),
        (["search", "nowhere.toml"], "no such configuration file"),
        (["retrieval", "x", "--local", "y"], "--local: only for serve search"),
        (["search", "x", "--local", "y"], "local already"),
        (["search", "x", "--port", "70000"], "port"),
        (["search", "x", "--allow-database", "db"], "write it as http"),
        (["search", "x", "--host", "0.0.0.0"], "set VLAGENT_SERVER_KEY"),
        (["search", "x", "--dry-run"], "--dry-run: only for serve stack"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VLAGENT_SERVER_KEY", raising=False)
    assert main(["serve", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_port_that_is_taken_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "live.toml").write_text('[text]\nprovider = "searxng"\nbase_url = "http://127.0.0.1:9"\n')
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        code = main(["serve", "search", str(tmp_path / "live.toml"), "--port", str(taken.getsockname()[1])])
    assert code == 2
    assert "address already in use" in capsys.readouterr().err
