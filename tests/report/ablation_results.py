"""Results of an ablation of two arms, two mixes and a cold start, as the runner keeps them."""

from __future__ import annotations

import random
from pathlib import Path

from vlagent.bench.ablation import BEFORE, RunResult
from vlagent.files import write_json

KINDS = ("read", "fact", "brand") * 40
STEPS = tuple(float(step) for step in range(1, 21))


def make_results(folder: Path, arms: tuple[str, ...] = ("grpo", "gspo", "bn_gspo"), seeds: int = 3) -> Path:
    """RUNS/runs/*.json; bn_gspo learns more than the others, which are the same but for chance."""
    cells = [(arm, "hybrid") for arm in arms] + [(arms[-1], "perception")]
    for number, (arm, mix) in enumerate(cells):
        for seed in range(seeds):
            _write(folder, arm, mix, seed, 0.75 if arm == "bn_gspo" and mix == "hybrid" else 0.5, number)
    _write(folder, BEFORE, "none", 0, 0.4, 99)
    return folder


def _write(folder: Path, arm: str, mix: str, seed: int, share: float, number: int) -> None:
    rng = random.Random(1000 * number + seed)
    outcomes = "".join("1" if rng.random() < share else "0" for _ in KINDS)
    rising = tuple(round(0.4 + (share - 0.4) * step / 20 + rng.uniform(-0.05, 0.05), 4) for step in STEPS)
    curves = {
        "success/all": (STEPS, rising),
        "bn/p": (STEPS, tuple(0.7 for _ in STEPS)),
        "ratio/one": (STEPS, tuple(1.0 for _ in STEPS)),
    }
    if arm == "bn_gspo":
        curves["bn/factor"] = (STEPS, tuple(1.28 for _ in STEPS))
    result = RunResult(
        arm=arm,
        mix=mix,
        start="full",
        seed=seed,
        order=number,
        commands=(f"vlagent rl configs/rl/toy_bn_gspo.toml seed={seed}", "vlagent eval ..."),
        commit="abc1234",
        config=f"{number}{seed}",
        steps=20,
        core_s=150.0 + seed,
        interrupted=int(seed == 1),
        curves={} if arm == BEFORE else curves,
        questions="q",
        kinds=KINDS,
        outcomes=outcomes,
        calls=2.0,
        redundant=0.4,
    )
    write_json(folder / "runs" / f"{arm}-{mix}-full-s{seed}.json", result)
