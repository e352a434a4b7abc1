"""Issue 3: reinforcement learning: what it learns, that its arithmetic is right, what the ablation says, how fast."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from accept.breaking import put
from accept.harness import ROOT, Context, Figure, Item, dump, one_thread, run_tests, tests_of
from accept.issue_3_learning import clean, learning, mutants
from vlagent.bench.ablation import BEFORE, RunResult, analyse, read_results
from vlagent.files import read_json
from vlagent.report.ablation import write_ablation_report

ABLATION = ROOT / "docs" / "ablations" / "toy_algorithms"
SAMPLES = 8
"""Episodes of a group in the ablation."""


def _tested(ctx: Context, name: str, paths: list[str], only: str = "", mutant: str | None = None) -> Figure:
    """Tests that failed, with a fault in what they test."""
    broken = {"VLAGENT_MUTANT": mutant, "PYTEST_ADDOPTS": "-p accept.sabotage_rl"} if mutant else {}
    failed, ran = run_tests(ctx, name, paths, only, broken)
    return Figure(f"{name}_tests_failed", failed, ran, note=only or paths[0])


def parity(ctx: Context) -> list[Figure]:
    """Parity and hazard tests, against TRL's own functions; sabotaged, `bn_gspo` has the wrong sign."""
    mutant = "bn_gspo_sign" if ctx.broken else None
    return [_tested(ctx, "parity", ["tests/train/rl/algorithms"], mutant=mutant)]


def verl(ctx: Context) -> list[Figure]:
    """The contract and parity tests in veRL's own environment; sabotaged, `bn_gspo` has the wrong sign there."""
    fault = {"VLAGENT_MUTANT": "bn_gspo_sign", "PYTEST_ADDOPTS": "-p accept.sabotage_rl"}
    environment = one_thread() | (fault if ctx.broken else {})
    done = subprocess.run(["make", "test-verl"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    failed, ran = tests_of(ctx, "verl", done)
    return [Figure("verl_tests_failed", failed if done.returncode == 0 else max(1, failed), ran)]


def resumes(ctx: Context) -> list[Figure]:
    """Kills in rollout, update and checkpoint writing; two processes. Sabotaged, both are broken."""
    mutant = "resumes" if ctx.broken else None
    kills, processes = "tests/train/rl/test_trainer_kill.py", "tests/train/rl/test_trainer_processes.py"
    return [
        _tested(ctx, "kills", [kills], "killed or kill", mutant),
        _tested(ctx, "two_processes", [processes], "two_processes", mutant),
    ]


def small(ctx: Context) -> list[Figure]:
    """A small ablation that is killed again and again; sabotaged, its runs get no processor time.

    Counts what is missing of its five results; the same runs undisturbed must have given the same answers.
    """
    words = ["ablate", "configs/ablate/toy_small.toml", *(["limits.core_minutes=0.02"] if ctx.broken else [])]
    shutil.rmtree(ctx.folder, ignore_errors=True)
    ctx.folder.mkdir(parents=True)
    kills = code = 0
    for name, patience in (("whole", None), ("killed", 25.0)):
        folders = [f"run={ctx.folder / name}", f"results={ctx.folder / name / 'results'}"]
        command = [sys.executable, "-m", "vlagent", *words, *folders]
        while True:
            with (ctx.folder / f"{name}.log").open("a") as log:
                process = subprocess.Popen(command, cwd=ROOT, env=one_thread(), stdout=log, stderr=log)
            try:
                code = max(code, process.wait(timeout=patience if kills < KILLS else None))
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
    answers = [_answers(ctx.folder / name / "results" / "runs") for name in ("whole", "killed")]
    missing = 2 * SMALL - sum(map(len, answers))
    differ = sum(answers[0].get(name) != given for name, given in answers[1].items())
    return [
        Figure("ablate_small_exit_code", code, 1),
        Figure("ablate_small_missing", missing, 2 * SMALL, note=f"{kills} kills"),
        Figure("ablate_small_differ", differ, SMALL),
    ]


KILLS, SMALL = 3, 5
"""Kills of the small ablation, and its results."""


def _answers(folder: Path) -> dict[str, str]:
    return {f"{run.arm} {run.seed}": run.outcomes for run in read_results(folder)}


def ablation(ctx: Context) -> list[Figure]:
    """The committed results, read again; sabotaged, all but one seed are lost."""
    folder = ctx.folder / ABLATION.name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ABLATION, folder)
    if ctx.broken:
        for path in (folder / "runs").glob("*-s[2-9].json"):
            path.unlink()
    results = read_results(folder / "runs")
    write_ablation_report(folder)
    trained = [run for run in results if run.arm != BEFORE]
    seeds = [len(cell.seeds) for cell in analyse(results).cells]
    names = ("page.html", "table.md", "analysis.json")
    differs = sum((folder / name).read_bytes() != (ABLATION / name).read_bytes() for name in names)
    most = max(run.core_s for run in trained) / 60
    nameless = sum(not (run.commit and run.commands) for run in results)
    errors = [error for run in trained for error in identity_errors(run)]
    dump(ctx.folder, {"cells": seeds, "identity": max(errors, default=0.0)})
    return [
        Figure("ablation_cells", len(seeds), len(trained), note=_cells_note(trained)),
        Figure("ablation_fewest_seeds", min(seeds), len(trained)),
        Figure("ablation_core_minutes_most", most, len(trained)),
        Figure("ablation_without_command_or_commit", nameless, len(results)),
        Figure("ablation_uncommitted_files", uncommitted(), len(results)),
        Figure("ablation_files_differ", differs, len(names), note="written anew from runs/*.json"),
        Figure("ablation_identity_error", max(errors, default=float("inf")), len(errors), note="factor of bn_gspo"),
        Figure("ablation_clip_share", clip_share(trained), len(trained), note="arm with four minibatches"),
    ]


def _cells_note(runs: list[RunResult]) -> str:
    return " ".join(dict.fromkeys("/".join(run.cell) for run in runs))


def identity_errors(run: RunResult) -> list[float]:
    """|measured factor - 1 / sqrt(p (G - 1) / G)| of each step with whole groups in one minibatch."""
    if run.arm != "bn_gspo" or "bn/factor" not in run.curves:
        return []
    pairs = zip(run.curves["bn/p"][1], run.curves["bn/factor"][1], strict=False)
    shares = [(p, factor) for p, factor in pairs if p and factor]
    return [abs(factor - (p * (SAMPLES - 1) / SAMPLES) ** -0.5) / factor for p, factor in shares]


def clip_share(runs: list[RunResult]) -> float:
    """Largest share of clipped ratios of a step in the arms in which clip can act."""
    curves = [run.curves[name][1] for run in runs for name in ("clip/low", "clip/high") if name in run.curves]
    return max((value for curve in curves for value in curve if value is not None), default=0.0)


def uncommitted() -> int:
    """Files of the ablation that are not committed as they are."""
    done = subprocess.run(
        ["git", "status", "--porcelain", "--", str(ABLATION)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return len(done.stdout.splitlines())


def speed(ctx: Context) -> list[Figure]:
    """Rollout and full step against stock TRL in one run; sabotaged, episodes run one after another."""
    from benchmarks import rl_rollout, rl_step
    from vlagent.config import make_config
    from vlagent.train.rl.rollout import RolloutConfig

    if ctx.broken:
        put(rl_rollout, RolloutConfig=partial(RolloutConfig, concurrency=1))
        put(rl_step, make_config=partial(make_config, overrides=["rollout.concurrency=1"]))
    figures, raw = [], {}
    for name, benchmark in (("rl_rollout", rl_rollout), ("rl_step", rl_step)):
        raw[name] = measured = benchmark.measure()
        note = f"{measured['vlagent_s']:.2f} s against {measured['trl_s']:.2f} s of TRL"
        figures.append(Figure(f"{name}_ratio", measured["ratio"], measured["episodes"], note=note))
    dump(ctx.folder, raw)
    return figures


def shipped(ctx: Context) -> list[Figure]:
    """The RL checkpoint in the package is the default, and the card has its scores; sabotaged, another is asked for."""
    from vlagent.cli import shipped as package

    name, wanted = package.default_model(), "shipped:sft" if ctx.broken else "shipped:rl"
    card = (package.CHECKPOINTS / "MODEL_CARD.md").read_text()
    scores = read_json(package.CHECKPOINTS / "scores.json")["worlds"]
    told = "| `rl` |" in card and all("rl" in world["right"] for world in scores.values())
    return [
        Figure("shipped_default_is_rl", float(name == wanted), 1, note=name or "none"),
        Figure("shipped_has_card", float(told), 1),
    ]


ITEMS: dict[str, Item] = {
    "parity": parity,
    "resumes": resumes,
    "ablation": ablation,
    "small": small,
    "shipped": shipped,
    "speed": speed,
    "learning": learning,
    "clean": clean,
    "mutants": mutants,
    "verl": verl,
}
