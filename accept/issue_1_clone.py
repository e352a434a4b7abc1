"""Issue 1: a fresh clone and a fresh wheel, with nothing else typed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from accept.harness import ROOT, Context, Figure


def clean_clone(ctx: Context) -> list[Figure]:
    """`make demo` and `make test` on a clone; sabotaged, the answer match accepts everything."""
    clone = ctx.folder / "clone"
    shutil.rmtree(clone, ignore_errors=True)
    _run(ctx.folder, "clone.log", "git", "clone", "--quiet", str(ROOT), str(clone))
    if ctx.broken:
        (clone / "vlagent" / "rewards" / "match.py").write_text("match = None\n")
    demo, demo_s = _run(clone, "../demo.log", "make", "demo")
    tests, tests_s = _run(clone, "../test.log", "make", "test")
    return [
        Figure("demo_exit_code", demo, 1, note=f"{demo_s:.0f} s with the installation"),
        Figure("tests_exit_code", tests, 1),
        Figure("tests_minutes", tests_s / 60, 1),
    ]


def wheel(ctx: Context) -> list[Figure]:
    """The built wheel in an empty environment runs `vlagent demo`; sabotaged, it lacks its page templates."""
    for name in ("dist", "venv", "elsewhere"):
        shutil.rmtree(ctx.folder / name, ignore_errors=True)
    (ctx.folder / "elsewhere").mkdir(parents=True)
    _must(ctx, sys.executable, "-m", "build", "--wheel", "--outdir", str(ctx.folder / "dist"), str(ROOT))
    _must(ctx, sys.executable, "-m", "venv", str(ctx.folder / "venv"))
    (built,) = (ctx.folder / "dist").glob("*.whl")
    pip = (str(ctx.folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet")
    _must(ctx, *pip, "-c", str(ROOT / "constraints.txt"), str(built))
    if ctx.broken:
        for page in (ctx.folder / "venv").glob("lib/*/site-packages/vlagent/report/**/*.html"):
            page.unlink()
    vlagent = ctx.folder / "venv" / "bin" / "vlagent"
    code, seconds = _run(ctx.folder / "elsewhere", "../demo.log", str(vlagent), "demo")
    return [Figure("wheel_demo_exit_code", code, 1, note=f"{seconds:.0f} s, core dependencies only")]


def _run(folder: Path, log: str, *words: str) -> tuple[int, float]:
    """Exit code and seconds of a command run as a stranger would: none of our environment's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VLAGENT", "VIRTUAL_ENV"))}
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "BREAK", "QUICK", "FRESH"):
        kept.pop(name, None)
    started = time.monotonic()
    with (folder / log).open("w") as file:
        done = subprocess.run(words, cwd=folder, env=kept, stdout=file, stderr=subprocess.STDOUT, check=False)
    return done.returncode, time.monotonic() - started


def _must(ctx: Context, *words: str) -> None:
    code, _ = _run(ctx.folder, "wheel.log", *words)
    if code != 0:
        raise RuntimeError(f"{' '.join(words)} failed: {(ctx.folder / 'wheel.log').read_text()[-800:]}")
