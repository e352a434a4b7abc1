"""The search server under load: cached, uncached and local queries, and twenty identical ones at once.

    python -m benchmarks.server [SECONDS]

The load is that of Debian's `wrk`. Fakes (search 50 ms, pages of 50 kB 50 ms, a model 200 ms), the generator and the
server share the cores of this machine. The yardstick of cached answers is an empty FastAPI handler under the same
uvicorn, asked in the same run by turns. Uncached and local queries are all different, and so are their pages: nothing
is kept. Local queries ask an index of 20,000 passages; their summaries come from the same model, six calls each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx

from benchmarks.search import _corpus
from vlagent.search.text_build import index_text

SECONDS = 8
ROUNDS = 3
WARM_S = 2
PASSAGES = 20_000
CACHED, UNCACHED, LOCAL = 50, 8, 50
"""Connections."""
EMPTY = """
from fastapi import FastAPI, Request, Response
app = FastAPI()
@app.post("/search")
async def search(request: Request) -> Response:
    return Response("nothing", media_type="text/plain")
"""
SCRIPT = """
local count = 0
local words = {%s}
request = function()
  count = count + 1
  local text = %s
  return wrk.format("POST", "/search", {["Content-Type"] = "application/json"}, text)
end
"""
SAME = """'{"query": "When was the tower opened?"}'"""
OTHERS = """string.format('{"query": "RUN tower %d opened"}', count)"""
WORDS = """string.format('{"retrieval_mode": "local", "query": "RUN %d %s and %s"}',
  count, words[count % #words + 1], words[(count * 7) % #words + 1])"""


def measure(seconds: int = SECONDS, options: Sequence[str] = ()) -> dict[str, Any]:
    """Rates a second, milliseconds, and what was asked of the fakes. `options` are those of `vlagent serve`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fakes = stack.enter_context(_fakes())
        url = stack.enter_context(_server(folder, fakes, options))
        empty = stack.enter_context(_empty(folder))
        # Sent like this, twenty queries are there before the first one is answered.
        identical = _twenty(url, fakes["control"])
        rounds = []
        for _ in range(ROUNDS):
            rounds.append((_wrk(folder, empty, SAME, CACHED, seconds), _wrk(folder, url, SAME, CACHED, seconds)))
        for text, connections in ((OTHERS, UNCACHED), (WORDS, LOCAL)):
            _wrk(folder, url, _new(text), connections, WARM_S)  # connections, the index and its files
            _settled(url)
        _counts(fakes["control"])
        uncached = _wrk(folder, url, _new(OTHERS), UNCACHED, 2 * seconds)
        _settled(url)
        asked = _counts(fakes["control"])
        local = _wrk(folder, url, _new(WORDS), LOCAL, seconds)
        stats = _settled(url)
        asked["local"] = _counts(fakes["control"])["model"]
    return {
        "cached_per_s": statistics.median(ours["per_s"] for _, ours in rounds),
        "empty_per_s": statistics.median(theirs["per_s"] for theirs, _ in rounds),
        "cached_share": statistics.median(ours["per_s"] / theirs["per_s"] for theirs, ours in rounds),
        "cached": rounds[-1][1],
        "uncached": uncached,
        "asked": asked,
        "local": local,
        "identical": identical,
        "failed": uncached["failed"] + local["failed"] + sum(ours["failed"] for _, ours in rounds),
        "load_average": os.getloadavg()[0],
        "max_rss_mb": stats["resource_health"]["max_rss_mb"],
    }


def _settled(url: str) -> dict[str, Any]:
    """Wait until what the generator has left behind is answered; the server's counts."""
    while True:
        stats: dict[str, Any] = httpx.get(f"{url}/stats", trust_env=False, timeout=120).json()
        if stats["server"]["running"] + stats["server"]["waiting"] == 0:
            return stats
        time.sleep(0.2)


def _new(text: str) -> str:
    """Queries that nobody has asked before."""
    return text.replace("RUN", os.urandom(3).hex())


@contextmanager
def _fakes() -> Iterator[dict[str, str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.load_world"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


@contextmanager
def _server(folder: Path, fakes: dict[str, str], options: Sequence[str]) -> Iterator[str]:
    host = fakes["pages"].removeprefix("http://")
    (folder / "live.toml").write_text(
        f'[text]\nprovider = "serper"\nbase_url = "{fakes["search"]}"\n'
        f'[pages]\nallow = ["{host}"]\n'
        f'[summary]\nmodel = "fake-model"\nbase_url = "{fakes["model"]}/v1"\n'
        f'[cache]\npath = "{folder / "cache.sqlite"}"\n'
    )
    corpus = folder / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"id": i, "contents": row}) for i, row in enumerate(_corpus(PASSAGES))))
    index_text([corpus], folder / "index")
    command = [sys.executable, "-m", "vlagent", "serve", "search", str(folder / "live.toml")]
    with _process([*command, "--local", str(folder / "index"), *options], "/health", folder / "server.log") as url:
        yield url


@contextmanager
def _empty(folder: Path) -> Iterator[str]:
    (folder / "empty.py").write_text(EMPTY)
    command = [sys.executable, "-m", "uvicorn", "empty:app", "--app-dir", str(folder), "--no-access-log"]
    with _process(command, "/search", folder / "empty.log") as url:
        yield url


@contextmanager
def _process(command: Sequence[str], path: str, log: Path) -> Iterator[str]:
    port = _free_port()
    key = {"VLAGENT_SERPER_KEY": "a-key-0123456789"}
    with log.open("wb") as file:
        process = subprocess.Popen([*command, "--port", str(port)], stdout=file, stderr=file, env={**os.environ, **key})
    url = f"http://127.0.0.1:{port}"
    try:
        _await(f"{url}{path}", process, log)
        yield url
    finally:
        process.kill()
        process.wait()


def _await(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(1200):
        try:
            httpx.get(url, trust_env=False)
            return
        except httpx.HTTPError:
            if process.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:]) from None
            time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wrk(folder: Path, url: str, text: str, connections: int, seconds: int) -> dict[str, float]:
    """Answers a second, p50 and p99 in milliseconds, and how many were no answers."""
    script = folder / "load.lua"
    script.write_text(SCRIPT % (", ".join(f'"{word}"' for word in _words()), text))
    command = [_wrk_path(), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "60s", "--latency"]
    said = subprocess.run([*command, "-s", str(script), url], capture_output=True, text=True, check=True).stdout
    failed = sum(
        int(found)
        for found in re.findall(r"Non-2xx or 3xx responses: (\d+)|timeout (\d+)", said)
        for found in found
        if found
    )
    return {
        "per_s": float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0]),
        "p50_ms": _milliseconds(said, "50%"),
        "p99_ms": _milliseconds(said, "99%"),
        "failed": failed,
    }


@cache
def _words() -> list[str]:
    """Of the passages, neither the rarest nor the most common."""
    seen = Counter(word for row in _corpus(PASSAGES) for word in row.split())
    return [word for word, _ in seen.most_common(1200)[200:]]


def _wrk_path() -> str:
    path = shutil.which("wrk")
    if path is None:
        raise RuntimeError("wrk is not installed: apt-get install wrk")
    return path


def _milliseconds(said: str, share: str) -> float:
    number, unit = re.findall(rf"{share}\s+([\d.]+)(us|ms|s|m)", said)[0]
    return float(number) * {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}[unit]


def _twenty(url: str, control: str) -> dict[str, int]:
    """What twenty identical queries at once ask of the fakes."""
    _counts(control)
    body = {"query": f"identical {os.urandom(4).hex()}"}
    with httpx.Client(trust_env=False, timeout=60) as client, ThreadPoolExecutor(20) as pool:
        said = list(pool.map(lambda _: client.post(f"{url}/search", json=body), range(20)))
    assert len({each.text for each in said}) == 1, "identical queries get one answer"
    asked = _counts(control)
    return {
        "searches": asked["search"].get("requests", 0),
        "pages": asked["pages"].get("pages", 0),
        "summaries": asked["model"].get("completions", 0),
    }


def _counts(control: str) -> dict[str, Any]:
    """Since the last time; a request that a fake refused is a fault of ours."""
    counts: dict[str, Any] = httpx.get(f"{control}/counts", trust_env=False, timeout=60).json()
    refused = [line for each in counts.values() for line in each["refused"]]
    assert not refused, refused
    return counts


def main() -> None:
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS), indent=1))


if __name__ == "__main__":
    main()
