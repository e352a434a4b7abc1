"""The real command line against the fake endpoint, on scikit-image's photographs and the machine's documentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import KEY, FakeOpenAI


@dataclass
class Cli:
    """`vlagent` as a user calls it, in a folder of its own."""

    folder: Path
    key: str | None = KEY
    key_name: str = "OPENAI_API_KEY"

    @property
    def environment(self) -> dict[str, str]:
        hidden = ("OPENAI_API_KEY", "VLAGENT_API_KEY", "AZURE_OPENAI_API_KEY", "NO_COLOR", "FORCE_COLOR")
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return {**kept, **({self.key_name: self.key} if self.key else {}), "OMP_NUM_THREADS": "1"}

    def start(self, *words: str | Path, stdin: int | None = subprocess.DEVNULL) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "vlagent", *map(str, words)]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str | Path, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, stdin=subprocess.PIPE if typed is not None else subprocess.DEVNULL)
        stdout, stderr = process.communicate(typed, timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def ask(self, server: FakeOpenAI, *words: str | Path, typed: str | None = None) -> subprocess.CompletedProcess[str]:
        return self("ask", "--base-url", server.base_url, "--attempts", "2", *words, typed=typed)

    def ask_json(self, server: FakeOpenAI, *words: str | Path) -> tuple[int, dict[str, Any]]:
        done = self.ask(server, "--json", *words)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    folder = tmp_path / "work"
    folder.mkdir()
    return Cli(folder)
