"""Issue 1: what the model writes, the pool, start-up."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from accept.harness import ROOT, Context, Figure, dump
from benchmarks import pool as pool_benchmark
from tests.agent.parts import Cut, Policy, Shelf, Twins, lines, make_agent, picture, sample
from tests.malformed import Malformed, kinds_of, make
from vlagent.agent.loop import run_agent
from vlagent.agent.parse import parse
from vlagent.chat.base import ChatReply, NativeCall
from vlagent.render.dialects import DIALECTS, Dialect
from vlagent.rewards.match import match
from vlagent.rewards.options import stated_option
from vlagent.tools.registry import make_tools
from vlagent.types import Fault, ImageRef, StopReason, Trajectory, Turn

SEED = 11
EACH = 80


def malformed(ctx: Context) -> list[Figure]:
    """Every kind of malformed output, 80 times in every dialect, through the whole loop."""
    photo = picture(Path(tempfile.mkdtemp()))
    rng = Random(SEED)
    kinds = {kind for dialect in DIALECTS.values() for kind in kinds_of(dialect)}
    planned = [
        (dialect, kind, make(kind, dialect, rng))
        for dialect in DIALECTS.values()
        for kind in kinds_of(dialect)
        for _ in range(EACH)
    ]
    played = asyncio.run(_play_all([(dialect, turn) for dialect, _, turn in planned], photo))
    wrong = [
        (dialect.name, kind, turn.text)
        for (dialect, kind, turn), trajectory in zip(planned, played, strict=True)
        if trajectory is None or not _as_expected(turn, trajectory.turns[0], ctx.broken)
    ]
    dump(ctx.folder, wrong[:200])
    named = sum(trajectory is not None and _named(trajectory) for trajectory in played)
    total = len(planned)
    return [
        Figure("malformed_kinds", len(kinds), len(kinds), SEED),
        Figure("malformed_each", EACH, total, SEED, "in each dialect that has the kind"),
        Figure("malformed_as_expected_share", 1 - len(wrong) / total, total, SEED),
        Figure("malformed_named_endings_share", named / total, total, SEED),
    ]


async def _play_all(turns: list[tuple[Dialect, Malformed]], photo: ImageRef) -> list[Trajectory | None]:
    played: list[Trajectory | None] = []
    for dialect, turn in turns:
        try:
            played.append(await _play(dialect, turn, photo))
        except Exception:  # noqa: BLE001 - that nothing leaves the loop is what is measured
            played.append(None)
    return played


def _named(trajectory: Trajectory) -> bool:
    """Ended as it says: answered with an answer, or out of turns without one."""
    if trajectory.stop is StopReason.ANSWERED:
        return bool(trajectory.answer)
    return trajectory.answer is None and trajectory.stop in (StopReason.TURN_LIMIT, StopReason.INVALID_ACTIONS)


async def _play(dialect: Dialect, turn: Malformed, photo: ImageRef) -> Trajectory:
    """The malformed turn, then an answer: the episode must go on and end with a name."""
    last = dialect.assistant(Turn(text="", think="so", answer="end"), ["input"]).text
    model = Policy(lines(ChatReply(turn.text, turn.finish_reason, turn.native_calls), last))
    agent = make_agent(model, Shelf(), Cut(), Twins(photo), dialect=dialect.name, max_turns=3)
    return await run_agent(agent, sample(images=(photo,)))


def _as_expected(wanted: Malformed, turn: Turn, broken: bool) -> bool:
    """Outcome, format and repairs as the kind says; sabotaged, every turn is taken to have been well formed."""
    if turn.answer is not None:
        outcome = "answer"
    else:
        faulty = turn.observation is not None and turn.observation.fault is Fault.MODEL
        outcome = "error" if turn.call is None or faulty else "call"
    repairs = wanted.repairs is None or set(wanted.repairs) <= set(turn.repairs)
    format_ok = True if broken else wanted.format_ok
    return (outcome, turn.format_ok) == (wanted.outcome, format_ok) and repairs


def cases(ctx: Context) -> list[Figure]:
    """Every line of tests/cases; sabotaged, every answer is taken to match."""
    checks: dict[str, Callable[[dict[str, Any]], bool]] = {
        "answer_match.jsonl": lambda c: (ctx.broken or match(c["answer"], c["ground_truth"]).matched) is c["match"],
        "options.jsonl": lambda c: stated_option(c["response"], c["letters"]) == c["expected"],
        "model_outputs.jsonl": _output_is_right,
        "dialect_outputs.jsonl": _output_is_right,
    }
    green = total = 0
    for name, check in checks.items():
        for line in (ROOT / "tests" / "cases" / name).read_text().splitlines():
            total += 1
            green += check(json.loads(line))
    return [Figure("cases_green_share", green / total, total)]


def _output_is_right(case: dict[str, Any]) -> bool:
    tools = make_tools(("text_search", "image_search", "image_crop"))
    dialect = DIALECTS[case.get("dialect", "default")]
    native = [NativeCall(**call) for call in case.get("native_calls", [])]
    parsed = parse(case["text"], case["finish_reason"], dialect, tools, case.get("kinds", ["input"]), native)
    found = {"call": parsed.call, "answer": parsed.answer, "error": parsed.error}
    (outcome,) = [name for name, value in found.items() if value is not None]
    return (outcome, list(parsed.repairs), parsed.format_ok) == (case["outcome"], case["repaired"], case["format_ok"])


def pool(ctx: Context) -> list[Figure]:
    """256 episodes with tools of half a second; sabotaged, the model blocks the event loop for 10 ms a turn."""
    if ctx.broken:
        quick = pool_benchmark.InstantModel.complete

        async def blocking(self: pool_benchmark.InstantModel, request: Any) -> ChatReply:
            time.sleep(0.01)  # noqa: ASYNC251 - the sabotage
            return await quick(self, request)

        pool_benchmark.InstantModel.complete = blocking  # type: ignore[method-assign]
    measured = pool_benchmark.measure()
    dump(ctx.folder, measured)
    n = measured["episodes"]
    return [
        Figure("pool_wall_ratio", measured["ratio"], n, note=f"{measured['wall_s']} s"),
        Figure("pool_notice_ms", measured["notice_ms_max"], n, note=f"worst; herd {measured['herd_ms_max']} ms"),
    ]


HEAVY = ("torch", "transformers", "fastapi", "uvicorn", "flask", "aiohttp.web", "starlette", "cv2")


def start(ctx: Context) -> list[Figure]:
    """What `import vlagent` loads, and `vlagent --help` against `import pydantic`, alternating."""
    extra = "import cv2; " if ctx.broken else ""
    code = f"{extra}import sys, vlagent; print(sum(m in sys.modules for m in {HEAVY!r}))"
    heavy = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    rounds = ctx.few(15, 7)
    mine, yardstick = [], []
    for _ in range(rounds):
        mine.append(_seconds([str(Path(sys.executable).parent / "vlagent"), "--help"]))
        yardstick.append(_seconds([sys.executable, "-c", "import pydantic"]))
    note = f"{median(mine):.3f} s / {median(yardstick):.3f} s"
    return [
        Figure("import_heavy_modules", heavy, len(HEAVY)),
        Figure("help_start_ratio", median(mine) / median(yardstick), rounds, note=note),
    ]


def _seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True)
    return time.perf_counter() - begun
