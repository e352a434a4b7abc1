"""Issue 1: the toy world played by scripted policies, and an evaluation that is killed again and again."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from accept.harness import ROOT, Context, Figure, dump
from vlagent.agent.config import preset
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.cli.models import open_model
from vlagent.data.manifest import load_samples
from vlagent.files import iter_jsonl
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.toy.controls import CONTROLS, Setup
from vlagent.toy.lexicon import KINDS
from vlagent.toy.world import WorldConfig, make_world
from vlagent.types import Sample

SEED = 41
TOOLS = ("image_crop", "text_search", "image_search")
KILLS = 20
QUESTIONS = 300


def toy(ctx: Context) -> list[Figure]:
    """Oracle, random and every negative control; sabotaged, the pictures of another split are searched."""
    each = ctx.few(200, 100)
    world = ctx.folder / "world"
    card = make_world(world, WorldConfig(seed=SEED, per_kind={"test": each, "val": 4}))
    levels = card.splits["test"].guess_levels
    samples = load_samples(f"{world / 'manifest.json'}:toy_test")
    search = open_search(world / "test" / "search")
    other = open_search(world / "val" / "search")
    if ctx.broken:
        search.images = other.images
    plain = Setup(make_tools(TOOLS, search=search), search, other.text, [s.images[0] for s in samples])
    scores = {name: _accuracy(name, plain, samples, ctx.folder / name) for name in ("oracle", "random")}
    controls = {}
    for name, control in CONTROLS.items():
        setup = plain if ctx.broken else control.apply(plain)
        controls[name] = _accuracy("oracle", setup, samples, ctx.folder / name)
    dump(ctx.folder, {"guess_levels": levels, **scores, "controls": controls})
    above = {
        f"{name}/{kind}": controls[name][kind] - levels[kind]
        for name, control in CONTROLS.items()
        for kind in control.kinds
    }
    worst = max(above, key=lambda key: above[key])
    lucky = {kind: scores["random"][kind] - levels[kind] for kind in KINDS}
    n = len(samples)
    return [
        Figure("toy_oracle_lowest_kind", min(scores["oracle"].values()), n, SEED, _shares(scores["oracle"])),
        Figure("toy_questions_a_kind", each, n, SEED),
        Figure("toy_guess_level_highest", max(levels.values()), n, SEED, _shares(levels)),
        Figure("toy_random_above_guess", max(lucky.values()), n, SEED, _shares(scores["random"])),
        Figure("toy_controls_above_guess", above[worst], n, SEED, f"worst of {len(above)}: {worst}"),
    ]


def _shares(values: dict[str, float]) -> str:
    return " ".join(f"{kind} {value:.3f}" for kind, value in values.items())


def _accuracy(policy: str, setup: Setup, samples: list[Sample], run: Path) -> dict[str, float]:
    """Right over all questions, by kind; anything unscored or failed counts against the policy."""
    model = open_model(f"toy:{policy}", samples=samples)
    config = EvalConfig(target="toy", model=model.name, agent=preset("paper", tools=TOOLS, seed=SEED), concurrency=8)
    agent = Agent(model, config.agent, dict(setup.tools), setup.search, folder=run / "images")
    summary = asyncio.run(evaluate(config, agent, samples, run)).summary
    slices = next(iter(summary.suites.values())).slices["kind"]
    return {kind: slices[kind].right / slices[kind].total for kind in KINDS}


def kills(ctx: Context) -> list[Figure]:
    """Kill -9 an evaluation at random moments until it is through; sabotaged, the undisturbed one has another seed."""
    world = ctx.folder / "world"
    make_world(world, WorldConfig(seed=SEED, per_kind={"test": QUESTIONS // len(KINDS)}))
    undisturbed = ctx.folder / "undisturbed"
    shutil.rmtree(undisturbed, ignore_errors=True)
    started = time.monotonic()
    _start(world, undisturbed, SEED + ctx.broken).wait()
    whole_s = time.monotonic() - started
    reference = _result(undisturbed)
    rng = Random(SEED)
    killed = rounds = differences = 0
    while killed < KILLS:
        run = ctx.folder / f"killed-{rounds}"
        shutil.rmtree(run, ignore_errors=True)
        killed += _play_killed(world, run, rng, whole_s, KILLS - killed)
        differences += _result(run) != reference
        rounds += 1
    dump(ctx.folder, {"whole_s": whole_s, "rounds": rounds, "counts": reference["counts"]})
    counts = reference["counts"]
    adds_up = counts["right"] + counts["wrong"] + counts["unscored"] + counts["failed"] == counts["total"] == QUESTIONS
    note = f"{rounds} evaluations; right {counts['right']} wrong {counts['wrong']} of {counts['total']}"
    return [
        Figure("kills", killed, QUESTIONS, SEED, f"in {rounds} evaluations"),
        Figure("kill_differences", differences + (not adds_up), rounds, SEED, note),
    ]


def _play_killed(world: Path, run: Path, rng: Random, whole_s: float, most: int) -> int:
    """Start, kill at a random moment, start again; the number of kills it took until it was through."""
    killed = 0
    while killed < most:
        process = _start(world, run, SEED)
        try:
            process.wait(timeout=rng.uniform(0.2, whole_s / 4))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
        else:
            return killed
    _start(world, run, SEED).wait()
    return killed


def _start(world: Path, run: Path, seed: int) -> subprocess.Popen[bytes]:
    target = f"{world / 'manifest.json'}:toy_test"
    words = ["eval", target, "--search", str(world / "test" / "search"), "--model", "toy:random", "--run", str(run)]
    command = [sys.executable, "-m", "vlagent", *words, "--seed", str(seed), "--concurrency", "4"]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, start_new_session=True)


def _result(run: Path) -> dict[str, Any]:
    """Everything that an evaluation found, but for how long it took."""
    summary = json.loads((run / "summary.json").read_text())
    for suite in summary["suites"].values():
        suite.pop("timing")
    summary.pop("provenance")
    rows = sorted(iter_jsonl(run / "rows.jsonl"), key=lambda row: (row["sample_id"], row["rollout"]))
    return {**summary, "rows": rows}
