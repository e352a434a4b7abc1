"""The folder of a training run of a dozen steps, made by the code that training writes it with."""

from __future__ import annotations

import math
from pathlib import Path

from tests.report.conftest import EVIL, photo
from vlagent.files import write_json
from vlagent.train.rl.metrics import Costs, step_metrics
from vlagent.train.rl.recorded import write_groups
from vlagent.train.rl.watch import Watch, WatchConfig
from vlagent.types import (
    Call,
    EvalRow,
    Group,
    ImageRef,
    Observation,
    Outcome,
    Reward,
    Sample,
    StopReason,
    Trajectory,
    Turn,
)

STEPS = 12
KINDS = ("read", "brand")


def make_training_run(folder: Path) -> Path:
    """Success rises, redundant crops vanish, one value is no number; rollouts of every third step are recorded."""
    run = folder / "toy_bn_gspo"
    run.mkdir(parents=True)
    picture = photo(folder / "scene.png")
    write_json(run / "config.json", {"verb": "rl", "steps": STEPS, "note": EVIL})
    write_json(run / "summary.json", {"verb": "rl", "total_steps": STEPS, "ended": "complete", "best_step": 10})
    watch = Watch(run, WatchConfig())
    for step in range(1, STEPS + 1):
        groups = [_group(step, number, kind, picture) for number, kind in enumerate(KINDS * 3)]
        if step % 3 == 1:
            write_groups(run / "rollouts", step - 1, groups)
        more = {"loss": math.nan if step == 6 else 1.0 / step, "kl": 0.001 * step, "ratio/q99": 1 + 1e-6 * step}
        spent = {"step": 3.0, "rollout": 2.0, "update": 1.0, "model": 50.0, "tools": 9.0, "reward": 0.5}
        costs = Costs(spent, 900, 700)
        watch.log(step, step_metrics(groups, {}, (), costs, {**more, "bn/p": 0.5, "bn/factor": 1.5, "own/thing": 7.0}))
        if step % 4 == 0:
            watch.note(step, {"validation/success": 0.3 + 0.04 * step})
    return run


def _group(step: int, number: int, kind: str, picture: ImageRef) -> Group:
    sample = Sample(
        id=f"toy-{step}-{number}",
        source="toy",
        question=f"What does sign {number} of step {step} say?",
        images=(picture,),
        answers=("ZEDDIN",),
        extra={"kind": kind, "min_calls": 1},
    )
    played = [_episode(sample, rollout, step, picture) for rollout in range(4)]
    right = [rollout < 1 + step // 5 for rollout in range(4)]
    rewards = [
        Reward(parts={"accuracy": float(ok), "format": 1.0}, weights={"accuracy": 1, "format": 0.5}) for ok in right
    ]
    rows = [
        EvalRow(
            suite="toy",
            sample_id=sample.id,
            rollout=rollout,
            outcome=Outcome.RIGHT if right[rollout] else Outcome.WRONG,
            stop=StopReason.ANSWERED,
            answer=played[rollout].answer,
            answers=sample.answers,
            reward=rewards[rollout],
            slices={"kind": kind},
        )
        for rollout in range(4)
    ]
    return Group(sample, played, list(rewards), rows)


def _episode(sample: Sample, rollout: int, step: int, picture: ImageRef) -> Trajectory:
    crop = ImageRef(path=picture.path, width=128, height=96, box=(320, 240, 448, 336))
    call = Call(name="image_crop", arguments={"bbox": [500, 500, 700, 700], "image_index": 0})
    look = Turn(
        text="x", think=f"Look. {EVIL}", call=call, format_ok=True, observation=Observation(text="", images=(crop,))
    )
    seek = Turn(
        text="x",
        call=Call(name="text_search", arguments={"query": "zeddin"}),
        format_ok=True,
        observation=Observation(text="ZEDDIN was founded in 1931."),
    )
    looks = (look,) * (2 if step < 6 and rollout % 2 else 1)
    seeks = (seek,) if sample.extra["kind"] == "brand" else ()
    end = Turn(text="x", think="Clear.", answer="ZEDDIN", format_ok=True)
    return Trajectory(
        sample_id=sample.id,
        rollout=rollout,
        turns=(*looks, *seeks, end),
        answer="ZEDDIN",
        stop=StopReason.ANSWERED,
        images=(picture, *(crop for _ in looks)),
    )
