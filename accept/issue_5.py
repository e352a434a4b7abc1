"""Issue 5: suites to their exact scores, checkpoints compared, cases, faults, speed, the big page, plug-ins."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accept.harness import ROOT, Context, Figure, Item, dump, run_tests, sabotage
from accept.issue_2 import SEED, World, by_kind, macro, open_world, play, words
from tests.bench.suites.items import EXPECTED
from tests.bench.suites.items import Item as Planted
from tests.bench.suites.published import PUBLISHED
from tests.bench.suites.world import items_of, lay_out, outcomes
from tests.bench.suites.world import play as observe
from tests.rewards.match_table import DIFFERENT, SAME
from vlagent.bench.compare import Pairing, compare
from vlagent.bench.suites import SUITES
from vlagent.bench.summary import SuiteSummary
from vlagent.cli.shipped import PREFIX, shipped
from vlagent.rewards.match import match
from vlagent.rewards.options import stated_option

CHECKPOINTS = ("base", "sft", "rl")
WORKFLOWS = ("direct", "rag", "agent")
EACH = {False: 120, True: 40}
"""Questions a kind of the toy suite, by QUICK."""
PLUG_INS = ("tests/integrations/inspect", "tests/integrations/lmms", "tests/integrations/vlmevalkit")


def toy(ctx: Context) -> list[Figure]:
    """Three checkpoints in three workflows, paired; sabotaged, the fine-tuned one stands in for the trained ones."""
    world = open_world(ctx.folder.parent / "world", EACH[ctx.quick])
    runs = {
        (name, workflow): _played(ctx, name, workflow, world)
        for name in CHECKPOINTS
        if name in shipped()
        for workflow in WORKFLOWS
    }
    shares = {name: by_kind(runs[name, "agent"]) for name, workflow in runs if workflow == "agent"}
    dump(ctx.folder, {f"{name} {workflow}": run.counts.model_dump() for (name, workflow), run in runs.items()})
    n = len(world.samples)
    figures = [
        Figure("toy_runs", len(runs), n, SEED, f"shipped: {', '.join(shipped())}"),
        Figure("toy_denominators_off", sum(not _adds_up(run, n) for run in runs.values()), len(runs), SEED),
        *(Figure(f"toy_{name}_agent_macro", macro(found), n, SEED, words(found)) for name, found in shares.items()),
    ]
    for better, worse in (("sft", "base"), ("rl", "sft")):
        figures += _gain(ctx, f"toy_{better}_above_{worse}", (worse, "agent"), (better, "agent"), n)
    return figures + _gain(ctx, "toy_agent_above_direct", ("rl", "direct"), ("rl", "agent"), n)


def _played(ctx: Context, name: str, workflow: str, world: World) -> SuiteSummary:
    """One run, kept; sabotaged, every checkpoint is the fine-tuned one."""
    return play(f"{PREFIX}{'sft' if ctx.broken else name}", world, _run(ctx, name, workflow), workflow)


def _run(ctx: Context, name: str, workflow: str) -> Path:
    return ctx.folder / f"{name}-{workflow}"


def _adds_up(run: SuiteSummary, n: int) -> bool:
    counts = run.counts
    return counts.right + counts.wrong + counts.unscored + counts.failed == counts.total == n


def _gain(ctx: Context, name: str, first: tuple[str, str], second: tuple[str, str], n: int) -> list[Figure]:
    """Points gained from one run to another over the same questions, and the low end of their interval."""
    a, b = (_run(ctx, *each) for each in (first, second))
    if not ((a / "rows.jsonl").exists() and (b / "rows.jsonl").exists()):
        return [Figure(f"{name}_points", float("-inf"), 0, SEED), Figure(f"{name}_low_points", float("-inf"), 0, SEED)]
    paired: Pairing = compare(a, b).all
    low = paired.interval[0] if paired.interval else float("-inf")
    note = f"p {paired.p_value:.2g}, {paired.better} better, {paired.worse} worse"
    gain = 100 * (paired.difference or 0)
    return [Figure(f"{name}_points", gain, n, SEED, note), Figure(f"{name}_low_points", 100 * low, n, SEED)]


def suites(ctx: Context) -> list[Figure]:
    """Every suite in every published layout; sabotaged, the observer answers from a world without what was planted."""
    cases = [*PUBLISHED, *((name, "released manifest") for name in SUITES if name != "toy")]
    off, seen = [], Counter[str]()
    for number, (suite, layout) in enumerate(cases):
        folder = ctx.folder / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        found = lay_out(folder / "data", suite, layout)
        planted: Sequence[Planted] = items_of(suite)[0]
        world = [replace(item, plant="right") for item in planted] if ctx.broken else planted
        got = outcomes(asyncio.run(observe(found, folder / "run", items=world)))
        seen[suite] += 1
        if got != EXPECTED["perception" if SUITES[suite].metric == "option" else "knowledge"]:
            off.append({"suite": suite, "layout": layout, "got": got})
    dump(ctx.folder, off)
    return [
        Figure("suites_seen", len(seen), len(cases)),
        Figure("suites_layouts", len(cases), len(cases)),
        Figure("suites_off", len(off), len(cases), note=str(off[:2]) if off else ""),
    ]


def cases(ctx: Context) -> list[Figure]:
    """Tables of answers, options and judge replies; sabotaged, every answer is taken to match."""
    table = [(a, b, True) for pairs in SAME.values() for a, b in pairs]
    table += [(a, b, False) for pairs in DIFFERENT.values() for a, b in pairs]
    wrong: list[Any] = [case for case in table if (ctx.broken or match(case[0], [case[1]]).matched) is not case[2]]
    lines = _lines("answer_match.jsonl")
    wrong += [c for c in lines if (ctx.broken or match(c["answer"], c["ground_truth"]).matched) is not c["match"]]
    options = _lines("options.jsonl")
    wrong += [c for c in options if stated_option(c["response"], c["letters"]) != c["expected"]]
    dump(ctx.folder, wrong)
    judged = run_tests(ctx, "judge", ["tests/rewards/test_judge.py", "tests/rewards/test_panel.py"])
    falsely = sum(not case[2] for case in table) + sum(not c["match"] for c in lines)
    return [
        Figure("cases", len(table) + len(lines) + len(options), 1),
        Figure("cases_of_false_positives", falsely, 1),
        Figure("cases_wrong", len(wrong), len(table) + len(lines) + len(options), note=str(wrong[:2]) if wrong else ""),
        Figure("judge_replies", judged[1], judged[1]),
        Figure("judge_replies_wrong", judged[0], judged[1]),
    ]


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ROOT / "tests" / "cases" / name).read_text().splitlines()]


def faults(ctx: Context) -> list[Figure]:
    """Each dependency broken in mid-run; sabotaged, its failures are the model's."""
    paths = [str(path) for path in sorted(ROOT.glob("tests/**/test_*fault*.py"))]
    paths += ["tests/bench/test_kill.py", "tests/cli/test_bench.py", "tests/bench/suites"]
    failed, ran = run_tests(ctx, "faults", paths, broken=sabotage(ctx, "faults"))
    return [Figure("fault_tests_failed", failed, ran), Figure("fault_tests", ran, ran)]


def plug_ins(ctx: Context) -> list[Figure]:
    """Inspect, lmms-eval and VLMEvalKit; sabotaged, every answer is right."""
    failed, ran = run_tests(ctx, "plug_ins", PLUG_INS, broken=sabotage(ctx, "plug_ins"))
    return [Figure("plug_in_tests_failed", failed, ran)]


def throughput(ctx: Context) -> list[Figure]:
    """Items a second at concurrency 64 against the endpoint's own bound; sabotaged, one episode after the other."""
    measured = _benchmark(ctx, "evaluation", ["--serial"] if ctx.broken else [])
    return [
        Figure("throughput_share", measured["share"], measured["items"], note=f"{measured['items_per_s']:.1f} items/s"),
        Figure("throughput_cpu_ms", measured["cpu_ms"], measured["items"]),
        Figure("throughput_lag_p99_ms", measured["lag_p99_ms"], measured["items"]),
    ]


def big_report(ctx: Context) -> list[Figure]:
    """A page of 25,000 items in headless Chromium; sabotaged, everything is loaded at once."""
    measured = _benchmark(ctx, "report", ["--at-once"] if ctx.broken else [])
    return [
        Figure("big_report_open_s", measured["open_s"], measured["items"]),
        Figure("big_report_filter_s", measured["filter_s"], measured["items"]),
    ]


def _benchmark(ctx: Context, name: str, more: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *more]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    (ctx.folder / f"{name}.log").write_text(done.stdout + done.stderr)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    dump(ctx.folder, measured)
    return measured


ITEMS: dict[str, Item] = {
    "suites": suites,
    "cases": cases,
    "toy": toy,
    "faults": faults,
    "plug_ins": plug_ins,
    "throughput": throughput,
    "big_report": big_report,
}
