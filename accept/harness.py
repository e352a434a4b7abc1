"""Runs acceptance items one after another, keeps what is done, and prints a line an item."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlagent.files import append_jsonl, iter_jsonl

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".accept"


@dataclass
class Context:
    """What an item may look at."""

    folder: Path
    """A folder of its own; what it leaves there lets it resume."""
    quick: bool
    broken: bool
    """Sabotage what is measured, so that the item comes out short."""

    def few(self, full: int, quick: int) -> int:
        """The number of samples: `full`, or `quick` with QUICK=1."""
        return quick if self.quick else full


@dataclass(frozen=True)
class Figure:
    """One measured number; an item may give several."""

    name: str
    value: float
    n: int
    seed: int | None = None
    note: str = ""


Item = Callable[[Context], list[Figure]]


def commit() -> str:
    """The checkout that is measured; `+` marks uncommitted changes."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    dirty = subprocess.run(
        ["git", "status", "--porcelain", "-uno"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def load_bars(issue: str) -> dict[str, dict[str, Any]]:
    """The bars of one issue: figure name -> {op, value}."""
    table: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "accept" / "bars.toml").read_text())[f"accept-{issue}"]
    return table


def met(bar: dict[str, Any], value: float) -> bool:
    """Whether a value meets its bar; a bar without `value` is only reported."""
    if "value" not in bar:
        return True
    limit = float(bar["value"])
    return {"<=": value <= limit, ">=": value >= limit, "==": value == limit, ">": value > limit}[bar["op"]]


def run_items(issue: str, items: dict[str, Item], *, quick: bool, broken: str | None, fresh: bool) -> int:
    """Measure the items (with `broken`, that one); 0 if all bars are met, 1 if any is short."""
    bars = load_bars(issue)
    done = WORK / f"accept-{issue}{'-quick' if quick else ''}.jsonl"
    if fresh:
        done.unlink(missing_ok=True)
    at = commit()
    known = {r["item"]: r for r in _stored(done) if r["commit"] == at} if broken is None else {}
    short = 0
    print(f"accept-{issue} at {at}{' quick' if quick else ''}{f' BREAK={broken}' if broken else ''}", flush=True)
    for name, item in items.items():
        if broken is not None and name != broken:
            continue
        record = known.get(name) or _measure(issue, name, item, at, quick, broken is not None)
        if broken is None and name not in known:
            append_jsonl(done, record)
        short += _print(record, bars)
    print(f"{'ok' if short == 0 else 'short'}: {short} figure(s) short", flush=True)
    return 1 if short else 0


def _stored(path: Path) -> list[dict[str, Any]]:
    return list(iter_jsonl(path, ours=True)) if path.exists() else []


def _measure(issue: str, name: str, item: Item, at: str, quick: bool, broken: bool) -> dict[str, Any]:
    folder = WORK / f"accept-{issue}" / (name + ("-broken" if broken else "") + ("-quick" if quick else ""))
    folder.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    figures = item(Context(folder=folder, quick=quick, broken=broken))
    return {
        "item": name,
        "commit": at,
        "seconds": round(time.monotonic() - start, 1),
        "figures": [vars(f) for f in figures],
    }


def _print(record: dict[str, Any], bars: dict[str, dict[str, Any]]) -> int:
    short = 0
    for figure in record["figures"]:
        bar = bars.get(figure["name"])
        if bar is None:
            raise KeyError(f"bars.toml has no bar for {figure['name']}")
        ok = met(bar, figure["value"])
        short += not ok
        limit = f"{bar['op']} {bar['value']}" if "value" in bar else "reported"
        print(
            f"{figure['name']:<40} {figure['value']:<10.4g} n={figure['n']:<6} seed={figure['seed']!s:<5} "
            f"bar {limit:<10} {'ok' if ok else 'short':<6} {record['seconds']} s {figure['note']}",
            flush=True,
        )
    return short


def dump(folder: Path, value: Any) -> None:
    """Keep the raw measurement beside the figure."""
    (folder / "raw.json").write_text(json.dumps(value, indent=1, default=str))


def one_thread() -> dict[str, str]:
    """The environment of a child: one thread, none of make's own variables."""
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return kept | {"OMP_NUM_THREADS": "1"}


def run_tests(
    ctx: Context, name: str, paths: Sequence[str], only: str = "", broken: Mapping[str, str] | None = None
) -> tuple[int, int]:
    """(failed, ran) of some tests, whose output is kept as NAME.log; none at all counts as a failure.

    `broken` is added to the environment: what it names a plug-in of pytest breaks.
    """
    command = [sys.executable, "-m", "pytest", *paths, "-p", "no:cacheprovider", *(["-k", only] if only else [])]
    environment = one_thread() | dict(broken or {})
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return tests_of(ctx, name, done)


def tests_of(ctx: Context, name: str, done: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """(failed, ran) of a run of pytest, whose output is kept as NAME.log."""
    (ctx.folder / f"{name}.log").write_text(done.stdout + done.stderr)
    passed, failed = (
        sum(int(number) for number in re.findall(rf"(\d+) {word}", done.stdout))
        for word in ("passed", "(?:failed|error)")
    )
    return (failed if passed + failed else 1), passed + failed


def sabotage(ctx: Context, name: str) -> dict[str, str]:
    """What makes `accept.sabotage_work` break what the tests of `name` are about, where the item is to be broken."""
    return {"VLAGENT_BROKEN": name, "PYTEST_ADDOPTS": "-p accept.sabotage_work"} if ctx.broken else {}
