"""A toy evaluation over the network, recorded, and played again where there is no network at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from accept.harness import ROOT, Context, Figure, dump
from accept.issue_2 import SEED, open_world
from benchmarks.server import _process
from tests.fakes.chat_server import Chat, Messages, text_of

_FREE = """latency_s timings usage retries total_s model_s tools_s cost_usd seconds rates cached started finished"""
FREE = frozenset(_FREE.split())
"""Timing, cost and cache."""
QUESTIONS = {False: 60, True: 20}


def replay(ctx: Context) -> list[Figure]:
    """Rows and trajectories of both; sabotaged, one answer of the recording is changed."""
    shutil.rmtree(ctx.folder, ignore_errors=True)
    world = ctx.folder.parent / "world"
    open_world(world, 20)
    n = QUESTIONS[ctx.quick]
    with Chat("policy", delay_s=0.0, brain=policy) as chat:
        index = [sys.executable, "-m", "vlagent", "serve", "retrieval", str(world / "test" / "search")]
        ctx.folder.mkdir(parents=True)
        with _process(index, "/health", ctx.folder / "server.log") as url:
            live = ctx.folder / "live.toml"
            live.write_text(f'[text]\nprovider = "retrieval"\nbase_url = "{url}"\n')
            words = _words(world, live, chat.base_url, n)
            _run([*words, "--run", str(ctx.folder / "first"), "--record", str(ctx.folder / "tape")])
    if ctx.broken:
        _change(ctx.folder / "tape" / "tape.jsonl")
    cut = ["unshare", "--map-root-user", "--net"]
    _run([*cut, *words, "--run", str(ctx.folder / "second"), "--replay", str(ctx.folder / "tape")])
    first, second = (_left(ctx.folder / name) for name in ("first", "second"))
    differ = [key for key in first.keys() | second.keys() if first.get(key) != second.get(key)]
    searched = sum('"name":"text_search"' in json.dumps(value).replace(" ", "") for value in first.values())
    dump(ctx.folder, {"differ": differ, "searched": searched})
    return [
        Figure("replay_rows", len(first), n, SEED),
        Figure("replay_rows_differ", len(differ), n, SEED, " ".join(map(str, differ[:3]))),
        Figure("replay_episodes_that_searched", searched, n, SEED),
    ]


def policy(messages: Messages) -> str:
    """Looks the question up, then answers with a word of what it read."""
    read = [text_of(message) for message in messages if message["role"] in ("user", "tool")]
    if len(read) == 1:
        query = re.sub(r"<[^>]+>", " ", read[0])[-120:]
        call = json.dumps({"name": "text_search", "arguments": {"query": " ".join(query.split())}})
        return f"<think>I look it up.</think><tool_call>{call}</tool_call>"
    found = re.findall(r"[A-Z][a-z]+", read[-1]) or ["nothing"]
    return f"<think>It says so.</think><answer>{found[-1]}</answer>"


def _words(world: Path, live: Path, base_url: str, n: int) -> list[str]:
    target = f"{world / 'manifest.json'}:toy_test"
    options = f"--model policy --base-url {base_url} --tools text_search --limit {n} --concurrency 8 --search {live}"
    return [sys.executable, "-m", "vlagent", "eval", target, *options.split()]


def _run(command: list[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-800:]}")


def _left(folder: Path) -> dict[tuple[str, str], Any]:
    """Every line of a run by file and sample, but for timing, cost and cache."""
    left = {}
    for name in ("rows.jsonl", "trajectories.jsonl"):
        for line in (folder / name).read_text().splitlines():
            value = _kept(json.loads(line))
            left[name, value["sample_id"]] = value
    return left


def _kept(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kept(inner) for name, inner in value.items() if name not in FREE}
    return [_kept(inner) for inner in value] if isinstance(value, list) else value


def _change(tape: Path) -> None:
    lines = tape.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if '"text search' in line)
    line = json.loads(lines[place])
    line["outcome"]["value"] = line["outcome"]["value"][1:]
    lines[place] = json.dumps(line)
    tape.write_text("\n".join(lines) + "\n")
