"""Issue 3: what the toy run of reinforcement learning learns, from flawed and from clean demonstrations."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from accept.harness import ROOT, Context, Figure, dump, one_thread
from accept.issue_2 import SEED, by_kind, open_world, play, room, words
from vlagent.bench.compare import Pairing, compare
from vlagent.bench.runs import read_samples
from vlagent.cli.shipped import PREFIX, folder_of
from vlagent.files import iter_jsonl, read_json, read_records, write_json
from vlagent.toy.world import SYSTEM_PROMPT, WorldConfig, make_world
from vlagent.train.rl.metrics import redundant_calls
from vlagent.types import Trajectory

CONFIG = "configs/rl/toy_bn_gspo.toml"
SEEDS = (1, 2, 3)
TRAIN_SEED = 1
"""Of the world that is trained in."""
EACH = {False: 120, True: 100}
"""Questions a kind of the test; 500 in all at least. By QUICK."""


@cache
def training_world(folder: Path) -> list[str]:
    """The world that is trained in, as changes to the configuration."""
    per_kind = {"train": 400, "val": 40}
    make_world(folder, WorldConfig(seed=TRAIN_SEED, per_kind=per_kind, system_prompt=SYSTEM_PROMPT))
    manifest = folder / "manifest.json"
    return [
        f'data.sources=[{{data = "{manifest}:toy_train"}}]',
        f"rollout.search={folder / 'train' / 'search'}",
        f"validation.data={manifest}:toy_val",
        f"validation.search={folder / 'val' / 'search'}",
    ]


def train(ctx: Context, start: str, seed: int, *changes: str, name: str = "", mutant: str | None = None) -> Path:
    """One run from a shipped checkpoint, or what is left of it; `minutes.json` beside it says how long it took."""
    run = ctx.folder / f"{name or start}-{seed}"
    if (run / "summary.json").exists() and read_json(run / "summary.json")["ended"] == "complete":
        return run
    world = training_world(ctx.folder.parent / "train-world")
    path = f"model.path={folder_of(PREFIX + start)}"
    words = [CONFIG, path, *world, *changes, f"seed={seed}", f"run={run}"]
    if (run / "config.json").exists():
        words = ["--resume", str(run)]
    module = ["accept.mutants", mutant] if mutant else ["vlagent"]
    started = time.monotonic()
    with (ctx.folder / f"{run.name}.log").open("a") as log:
        command = [sys.executable, "-m", *module, "rl", *words]
        subprocess.run(command, cwd=ROOT, env=one_thread(), stdout=log, stderr=log, check=True)
    before = read_json(minutes_of(run))["minutes"] if minutes_of(run).exists() else 0.0
    write_json(minutes_of(run), {"minutes": before + (time.monotonic() - started) / 60})
    return run


def minutes_of(run: Path) -> Path:
    """Where the time of a run is kept."""
    return run.with_name(f"{run.name}-minutes.json")


@dataclass(frozen=True)
class Gain:
    """Before against after, question by question."""

    paired: Pairing
    kinds: dict[str, float]
    redundant: tuple[float, float]
    """Redundant calls an episode, before and after."""
    before: Path
    after: Path


def measure(ctx: Context, start: str, run: Path) -> Gain:
    """Play the start and the trained weights on the same held-out questions."""
    world = open_world(room(ctx, EACH[ctx.quick]), EACH[ctx.quick])
    before, after = ctx.folder / f"before-{start}", ctx.folder / f"after-{run.name}"
    first = by_kind(play(f"{PREFIX}{start}", world, before))
    second = by_kind(play(f"local:{run / 'model'}", world, after))
    kinds = {kind: second[kind] - first[kind] for kind in first}
    return Gain(compare(before, after).all, kinds, (redundant(before), redundant(after)), before, after)


def redundant(run: Path) -> float:
    """Redundant calls an episode of an evaluation."""
    samples = {sample.id: sample for sample in read_samples(run)}
    played = {t.sample_id: t for t in read_records(run / "trajectories.jsonl", Trajectory)}
    return sum(redundant_calls(samples[name], t) for name, t in played.items()) / len(played)


def shared_scenes(ctx: Context) -> int:
    """Scenes of the test that training has seen, by hash."""

    def hashes(rows: Path) -> set[Any]:
        return {row["scene_hash"] for row in iter_jsonl(rows)}

    trained = ctx.folder.parent / "train-world"
    test = hashes(room(ctx, EACH[ctx.quick]) / "test" / "rows.jsonl")
    return len(test & (hashes(trained / "train" / "rows.jsonl") | hashes(trained / "val" / "rows.jsonl")))


def learning(ctx: Context) -> list[Figure]:
    """From the shipped SFT checkpoint, three seeds; sabotaged, the learning rate is next to nothing."""
    changes = ("optim.lr=1e-12",) if ctx.broken else ()
    figures, ratios, raw = [], [], {}
    for seed in SEEDS[:1] if ctx.quick or ctx.broken else SEEDS:
        run = train(ctx, "sft", seed, *changes)
        gain = measure(ctx, "sft", run)
        figures += gain_figures("learning", gain, seed)
        minutes = read_json(minutes_of(run))["minutes"] if minutes_of(run).exists() else 0.0
        figures.append(Figure("learning_minutes", minutes, 1, seed))
        figures.append(Figure("learning_mismatch_max", _mismatch(run), 1, seed, "sampler against trainer, all steps"))
        ratios.append(gain.redundant[1] / gain.redundant[0])
        raw[seed] = {"paired": gain.paired.model_dump(), "kinds": gain.kinds, "redundant": gain.redundant}
        note = f"{gain.redundant[0]:.3f} -> {gain.redundant[1]:.3f} an episode"
        figures.append(Figure("learning_redundant_ratio", ratios[-1], gain.paired.pairs, seed, note))
    dump(ctx.folder, raw)
    shared = shared_scenes(ctx)
    return [*figures, Figure("learning_shared_scenes", shared, figures[0].n, SEED, "train and test, by hash")]


def gain_figures(name: str, gain: Gain, seed: int) -> list[Figure]:
    """Points gained, and the lower end of their paired interval."""
    found = gain.paired
    low = found.interval[0] if found.interval else float("-inf")
    note = f"{100 * (found.first or 0):.1f} -> {100 * (found.second or 0):.1f}; {words(gain.kinds)}"
    return [
        Figure(f"{name}_gain_points", 100 * (found.difference or 0), found.pairs, seed, note),
        Figure(f"{name}_gain_low_points", 100 * low, found.pairs, seed),
    ]


def _mismatch(run: Path) -> float:
    return max(float(line.get("mismatch/max", 0.0)) for line in iter_jsonl(run / "metrics.jsonl"))


def clean(ctx: Context) -> list[Figure]:
    """From clean demonstrations, and how much of the gain from flawed ones is un-learning the flaws.

    Sabotaged, the learning rate is next to nothing.
    """
    changes = ("optim.lr=1e-12",) if ctx.broken else ()
    gains: dict[str, list[float]] = {"sft": [], "sft-clean": []}
    figures = []
    for seed in SEEDS[:1] if ctx.quick or ctx.broken else SEEDS:
        for start, found in gains.items():
            flawed = Context(ctx.folder.parent / "learning", ctx.quick, ctx.broken)
            shares = start == "sft" and not ctx.broken and not ctx.quick
            place = flawed if shares and flawed.folder.exists() else ctx
            gain = measure(place, start, train(place, start, seed, *changes))
            found.append(gain.paired.difference or 0.0)
            figures += gain_figures("clean", gain, seed) if start == "sft-clean" else []
    flaws, without = (sum(each) / len(each) for each in gains.values())
    share = 1 - without / flaws if flaws else float("nan")
    note = f"gain from flawed {100 * flaws:.1f}, from clean demonstrations {100 * without:.1f} points"
    return [*figures, Figure("unlearning_share", share, len(gains["sft"]), None, note)]


STEPS = {False: 40, True: 20}
"""Of a run with a fault. By QUICK."""


def mutants(ctx: Context) -> list[Figure]:
    """Runs with a fault in the algorithm end below the run without; sabotaged, the faulty runs have none."""
    from accept.mutants import MUTANTS

    last = ("validation.every=1000", "validation.first=false")  # of its validations, a faulty run's start is the best
    changes = (f"steps={STEPS[ctx.quick]}", *last)
    healthy = measure(ctx, "sft", train(ctx, "sft", SEEDS[0], *changes, name="healthy"))
    figures = []
    for name in MUTANTS:
        fault = None if ctx.broken else name
        run = train(ctx, "sft", SEEDS[0], *changes, name=f"mutant-{name}", mutant=fault)
        paired = compare(measure(ctx, "sft", run).after, healthy.after).all
        low = paired.interval[0] if paired.interval else float("-inf")
        note = f"{100 * (paired.first or 0):.1f} with, {100 * (paired.second or 0):.1f} without the fault"
        figures.append(Figure(f"mutant_{name}_worse_low_points", 100 * low, paired.pairs, SEEDS[0], note))
    return figures
