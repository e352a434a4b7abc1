"""Stands in for `python -m vlagent` under an ablation: `rl` and `eval` in no time, with the same folders.

Standard library alone, so that a hundred of them cost nothing. A training's success rises by 0.01 a step from 0.4; an
evaluation of ten questions gives `seed` right answers, and one more for bn_gspo. STAND_IN="NAME:WHAT,..." misbehaves
in jobs whose folder is called so (* is every job): `die` ends by a signal once, `exit3` and `exit2` with that code,
`burn` uses processor time without end, `wait` waits for SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import Any


def rl(words: list[str]) -> int:
    if words[0] == "--resume":
        config = json.loads((Path(words[1]) / "config.json").read_text())
    else:
        config = tomllib.loads(Path(words[0]).read_text())
        for word in words[1:]:
            change(config, word)
    run = Path(config["run"])
    run.mkdir(parents=True, exist_ok=True)
    path = run / "metrics.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    (run / "config.json").write_text(json.dumps(config))
    for step in range(done + 1, config["steps"] + 1):
        append(path, {"step": step, "success/all": round(0.4 + 0.01 * step, 4), "bn/p": 0.5, "episodes": 4})
        if step == 2:
            misbehave(run.parent.name, run)
    (run / "summary.json").write_text(json.dumps({"ended": "complete", "steps": config["steps"]}))
    (run / "model").mkdir(exist_ok=True)
    told = {"advantage": config["algorithm"]["advantage"], "seed": config["seed"]}
    (run / "model" / "arm.json").write_text(json.dumps(told))
    return 0


def change(config: dict[str, Any], word: str) -> None:
    key, _, value = word.partition("=")
    *parents, last = key.split(".")
    for name in parents:
        config = config.setdefault(name, {})
    config[last] = tomllib.loads(f"x = {value}")["x"]


def append(path: Path, *lines: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write("".join(json.dumps(line) + "\n" for line in lines))


def misbehave(job: str, run: Path) -> None:
    for entry in filter(None, os.environ.get("STAND_IN", "").split(",")):
        name, what = entry.split(":")
        if name not in (job, "*"):
            continue
        if what == "die" and not (run / "died").exists():
            (run / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if what.startswith("exit"):
            print(f"vlagent: {job} is not to be run")
            raise SystemExit(int(what.removeprefix("exit")))
        while what == "burn":
            pass
        while what == "wait":
            time.sleep(0.05)


def evaluate(words: list[str]) -> int:
    options = dict(zip(words[1::2], words[2::2], strict=True))
    run, model = Path(options["--run"]), Path(options["--model"].removeprefix("local:"))
    told: dict[str, Any] = json.loads((model / "arm.json").read_text()) if (model / "arm.json").exists() else {}
    right = int(told.get("seed", 0)) + (told.get("advantage") == "bn_gspo")
    run.mkdir(parents=True, exist_ok=True)
    for name in ("samples", "rows", "trajectories"):
        (run / f"{name}.jsonl").unlink(missing_ok=True)
    call = {"text": "x", "call": {"name": "image_crop", "arguments": {}}}
    for i in range(10):
        extra = {"kind": "read", "min_calls": 1}
        append(run / "samples.jsonl", {"id": f"q{i}", "source": "toy", "question": "?", "extra": extra})
        ended = {"sample_id": f"q{i}", "stop": "answered"}
        append(run / "trajectories.jsonl", ended | {"turns": [call, call, {"text": "x", "answer": "y"}]})
        outcome = "right" if i < right else "wrong" if i < 9 else "failed"
        append(run / "rows.jsonl", ended | {"suite": "toy", "outcome": outcome})
    return 0


def note(words: list[str]) -> int:
    Path(words[0]).parent.mkdir(parents=True, exist_ok=True)
    with Path(words[0]).open("a") as file:
        file.write("made\n")
    return 0


if __name__ == "__main__":
    verb, *rest = sys.argv[1:]
    raise SystemExit({"rl": rl, "eval": evaluate, "note": note}[verb](rest))
