"""Issue 2: the tiny model: its training, its scores, and the properties of sampler and trainer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from accept.breaking import put
from accept.harness import ROOT, Context, Figure, Item, dump, run_tests
from vlagent.agent.config import AgentConfig
from vlagent.agent.loop import Agent
from vlagent.bench.config import EvalConfig
from vlagent.bench.evaluate import evaluate
from vlagent.bench.summary import SuiteSummary
from vlagent.cli.models import close_model
from vlagent.cli.shipped import PREFIX, open_checkpoint, settings_of
from vlagent.data.manifest import load_samples
from vlagent.search.base import SearchServices
from vlagent.search.open import open_search
from vlagent.tools.registry import make_tools
from vlagent.toy.controls import CONTROLS, Setup
from vlagent.toy.lexicon import KINDS
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world
from vlagent.types import Sample

SEED = 977
"""Of the world that is measured on; no training and no choice of a checkpoint has seen it."""
FULL, QUICK = 200, 100
"""Questions a kind."""
CONTROLLED = 100
"""Of each kind that a control must bring down."""
REPORTED = 60
"""Of each kind where a figure is for the record."""


@dataclass(frozen=True)
class World:
    """One split of a toy world, opened."""

    samples: list[Sample]
    search: SearchServices
    other: SearchServices
    guess: dict[str, float]

    def only(self, kinds: Sequence[str], each: int) -> World:
        """The same world with the first `each` questions of some kinds."""
        asked = [[sample for sample in self.samples if sample.extra["kind"] == kind][:each] for kind in kinds]
        return replace(self, samples=[sample for part in asked for sample in part])


@cache
def open_world(folder: Path, each: int, split: str = "test", level: int = 2) -> World:
    """Make or reuse a world; `other` is the text index of another split, for a control."""
    per_kind = {split: each, "val": 4}
    card = make_world(folder, WorldConfig(seed=SEED, level=level, per_kind=per_kind, system_prompt=SYSTEM_PROMPT))
    samples = load_samples(f"{folder / 'manifest.json'}:toy_{split}")
    search, other = (open_search(folder / name / "search") for name in (split, "val"))
    return World(samples, search, other, card.splits[split].guess_levels)


def play(
    model: str, world: World, run: Path, workflow: str = "agent", control: str | None = None, tools: bool = True
) -> SuiteSummary:
    """Play a checkpoint at temperature 1, as its own settings say, and score it."""
    settings = settings_of(model, workflow) | {"workflow": workflow, "seed": SEED}
    config = AgentConfig.model_validate(settings if tools else settings | {"tools": (), "prompts": None})
    needed = config.tools if workflow == "agent" else ("text_search", "image_search") if workflow == "rag" else ()
    setup = Setup(make_tools(needed, search=world.search), world.search, world.other.text, _scenes(world))
    if control is not None:
        setup = CONTROLS[control].apply(setup)
    with ExitStack() as stack:
        chat = open_checkpoint(model)
        stack.callback(asyncio.run, close_model(chat))
        evaluation = EvalConfig(target="toy", model=model, agent=config, concurrency=64)
        agent = Agent(chat, config, dict(setup.tools), setup.search, folder=run / "images")
        return next(iter(asyncio.run(evaluate(evaluation, agent, world.samples, run)).summary.suites.values()))


def room(ctx: Context, each: int) -> Path:
    """Of a world that is played; fewer questions have their own."""
    return ctx.folder.parent / f"world-{each}"


def _scenes(world: World) -> list[Any]:
    return [sample.images[0] for sample in world.samples]


def by_kind(summary: SuiteSummary) -> dict[str, float]:
    """Right over all questions of a kind; what failed counts against the model here."""
    kinds = summary.slices["kind"]
    return {kind: kinds[kind].right / kinds[kind].total for kind in KINDS if kind in kinds}


def macro(shares: dict[str, float]) -> float:
    return sum(shares.values()) / len(shares)


def words(shares: dict[str, float]) -> str:
    return " ".join(f"{kind} {value:.3f}" for kind, value in shares.items())


def trained(ctx: Context) -> list[Figure]:
    """The shipped trained model; sabotaged, the base model stands in for it and no control is applied."""
    return scores_of(ctx, f"{PREFIX}{'base' if ctx.broken else 'trained'}")


def scores_of(ctx: Context, model: str) -> list[Figure]:
    """By kind on held-out level 2, each control, and the open test and level 3 for the record."""
    each, rooms = ctx.few(FULL, QUICK), ctx.folder.parent
    world = open_world(room(ctx, each), each)
    shares = by_kind(play(model, world, rooms / f"agent-{model.removeprefix(PREFIX)}-{each}"))
    above: dict[str, float] = {}
    for name, control in CONTROLS.items():
        asked = world.only(control.kinds, CONTROLLED)
        broken = by_kind(play(model, asked, ctx.folder / name, control=None if ctx.broken else name))
        above |= {f"{name}/{kind}": broken[kind] - world.guess[kind] for kind in control.kinds}
    worst = max(above, key=lambda key: above[key])
    others = {
        "open": by_kind(play(model, open_world(rooms / "open", REPORTED, "test_open"), ctx.folder / "open")),
        "level3": by_kind(play(model, open_world(rooms / "level3", REPORTED, level=3), ctx.folder / "level3")),
    }
    dump(ctx.folder, {"shares": shares, "guess": world.guess, "controls": above, **others})
    n = len(world.samples)
    figures = [Figure(f"trained_{kind}", shares[kind], each, SEED) for kind in ("fact", "place", "read", "brand")]
    return [
        *figures,
        Figure("trained_both_above_guess", shares["both"] - world.guess["both"], each, SEED, f"{shares['both']:.3f}"),
        Figure("trained_macro", macro(shares), n, SEED),
        Figure("trained_controls_above_guess", above[worst], CONTROLLED, SEED, f"worst of {len(above)}: {worst}"),
        Figure("trained_test_open_macro", macro(others["open"]), 5 * REPORTED, SEED, words(others["open"])),
        Figure("trained_level3_macro", macro(others["level3"]), 5 * REPORTED, SEED, words(others["level3"])),
    ]


def sft(ctx: Context) -> list[Figure]:
    """The shipped SFT checkpoints; sabotaged, the trained model stands in for both."""
    each = ctx.few(FULL, QUICK)
    world = open_world(room(ctx, each), each)
    figures = []
    for name in ("sft", "sft-clean"):
        shares = by_kind(play(f"{PREFIX}{'trained' if ctx.broken else name}", world, ctx.folder / name))
        lowest = min(shares[kind] - world.guess[kind] for kind in KINDS)
        figures.append(Figure(f"{name}_macro_low", macro(shares), len(world.samples), SEED, words(shares)))
        figures.append(Figure(f"{name}_macro_high", macro(shares), len(world.samples), SEED))
        figures.append(Figure(f"{name}_lowest_above_guess", lowest, len(world.samples), SEED))
    return figures


def tools_matter(ctx: Context) -> list[Figure]:
    """The agent against the better of direct and tools-off; sabotaged, the agent has no tools either."""
    each = ctx.few(FULL, QUICK)
    world = open_world(room(ctx, each), each)
    model = f"{PREFIX}trained"
    shared = ctx.folder.parent / f"agent-trained-{ctx.few(FULL, QUICK)}"
    run = ctx.folder / "agent" if ctx.broken else shared
    agent = macro(by_kind(play(model, world, run, tools=not ctx.broken)))
    direct = macro(by_kind(play(model, world, ctx.folder / "direct", workflow="direct")))
    off = macro(by_kind(play(model, world, ctx.folder / "off", tools=False)))
    note = f"agent {agent:.3f}, direct {direct:.3f}, tools off {off:.3f}"
    return [Figure("agent_gain_points", 100 * (agent - max(direct, off)), len(world.samples), SEED, note)]


def generation(ctx: Context) -> list[Figure]:
    """Agreement of sampler and trainer, and speed; sabotaged, the trainer scores at another temperature, one by one."""
    from benchmarks import generation as benchmark
    from vlagent.model.logprobs import token_logprobs

    if ctx.broken:

        def hotter(model: Any, batch: Any, banned: Any, temperature: float) -> Any:
            return token_logprobs(model, batch, banned, 1.01 * temperature)

        put(benchmark, token_logprobs=hotter)
        benchmark.CONCURRENCY = 1
    measured = benchmark.measure()
    dump(ctx.folder, measured)
    worst = max(measured["logprob_difference"].values())
    rates = f"{measured['engine_tokens_per_s']} against {measured['generate_tokens_per_s']} tokens/s"
    return [
        Figure("logprob_difference", worst, len(measured["logprob_difference"]), 0, "both architectures"),
        Figure("generation_ratio", measured["ratio"], measured["concurrency"], 0, rates),
    ]


PROPERTIES = {
    "frozen_tests_failed": "test_frozen_parts_stay_the_same_to_the_bit",
    "two_processes_tests_failed": "test_two_processes_equal_one_on_the_same_rows",
    "killed_tests_failed": "test_a_killed_run_resumes_to_the_same_bits",
}


def properties(ctx: Context) -> list[Figure]:
    """The tests of frozen parts, two processes and kills; sabotaged, the trainer's own code is broken."""
    broken = {"VLAGENT_SABOTAGE": "1", "PYTEST_ADDOPTS": "-p accept.sabotage"} if ctx.broken else {}
    figures = []
    for name, test in PROPERTIES.items():
        failed, ran = run_tests(ctx, name, ["tests/train"], test, broken)
        figures.append(Figure(name, failed, ran, note=test))
    return figures


def training(ctx: Context) -> list[Figure]:
    """Stage 0 and a full SFT by the commands of the card; with QUICK=1 in a few steps, to see that they run."""
    script = ROOT / "configs" / "stage0" / "retrain.sh"
    out = ctx.folder / "out"
    if ctx.broken:
        shutil.rmtree(out, ignore_errors=True)
    started = time.monotonic()
    environment = {
        **os.environ,
        "OUT": str(out),
        "PYTHON": sys.executable,
        "WITHOUT_RL": "1",
        "SMALL": "1" if ctx.quick or ctx.broken else "",
    }
    with (ctx.folder / "training.log").open("a") as log:
        code = subprocess.run(
            ["bash", str(script)], cwd=ROOT, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    spent = out / "seconds.json"
    seconds = sum(json.loads(spent.read_text()).values()) if spent.exists() else time.monotonic() - started
    figures = [Figure("training_exit_code", code, 1), Figure("training_minutes", seconds / 60, 1)]
    if ctx.quick and not ctx.broken:
        return figures
    each = ctx.few(FULL, QUICK)
    world = open_world(room(ctx, each), each)
    shares = by_kind(play(f"local:{out / 'trained'}", world, ctx.folder / "agent"))
    low = min(shares["fact"] - 0.85, shares["place"] - 0.85, shares["read"] - 0.75, shares["brand"] - 0.75)
    return [*figures, Figure("retrained_margin", low, len(world.samples), SEED, words(shares))]


def demo(ctx: Context) -> list[Figure]:
    """`make demo` on a clone; sabotaged, the checkpoints are gone and scripted policies play."""
    clone = ctx.folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    if ctx.broken:
        shutil.rmtree(clone / "vlagent" / "checkpoints", ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    started = time.monotonic()
    done = subprocess.run(["make", "demo"], cwd=clone, env=kept, capture_output=True, text=True, check=False)
    minutes = (time.monotonic() - started) / 60
    (ctx.folder / "demo.log").write_text(done.stdout + done.stderr)
    install = re.search(r"installed in (\d+) s", done.stdout)
    note = f"installation {install[1] if install else '?'} s, exit code {done.returncode}"
    learned = list(clone.glob("runs/demo-*/agent/summary.json"))
    suite = next(iter(json.loads(learned[0].read_text())["suites"].values())) if learned else None
    each = min(kind["total"] for kind in suite["slices"]["kind"].values()) if suite else 0
    right = suite["counts"]["accuracy"] if suite else 0.0
    return [
        Figure("demo_minutes", minutes if done.returncode == 0 else float("inf"), 1, note=note),
        Figure("demo_questions_a_kind", each, each * len(KINDS)),
        Figure("demo_agent_accuracy", right, each * len(KINDS)),
    ]


ITEMS: dict[str, Item] = {
    "trained": trained,
    "sft": sft,
    "tools_matter": tools_matter,
    "generation": generation,
    "properties": properties,
    "demo": demo,
    "training": training,
}
