from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.train.rl.world import config, graded, metrics, steps, weights
from vlagent.errors import UserError
from vlagent.files import iter_jsonl
from vlagent.model.load import load_policy
from vlagent.model.logprobs import token_logprobs
from vlagent.report.training import COMPARED
from vlagent.train.checkpoint import checkpoints
from vlagent.train.parts import part_of
from vlagent.train.rl.groups import group_rows
from vlagent.train.rl.metrics import SUMMED
from vlagent.train.rl.minibatch import check_pictures, make_minibatches, make_pass, work_of
from vlagent.train.rl.recorded import read_groups
from vlagent.train.rl.run import RlRun, train_rl
from vlagent.train.rl.trainer import Plan, PolicyTrainer


def _changed(before: Path, after: Path) -> set[str]:
    old, new = weights(before), weights(after)
    assert old.keys() == new.keys()
    return {part_of(name) for name in old if old[name] != new[name]}


def test_a_run_learns_records_its_episodes_and_exports_what_it_trained(world: Path, whole: Path) -> None:
    lines = steps(whole)
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert [line["episodes"] for line in lines] == [36, 36, 36]
    assert all(line["updates/taken"] == 1 and line["grad_norm"] > 0 for line in lines)
    assert [path.name for path in sorted((whole / "rollouts").iterdir())] == [f"step-00000{i}" for i in range(3)]
    assert weights(whole / "model") != weights(world / "model")


def test_the_page_speaks_of_numbers_that_a_run_measures(ruined: Path) -> None:
    measured = {name for line in metrics(ruined) for name in line}
    times = {name for line in iter_jsonl(ruined / "metrics.jsonl") for name in line if name.startswith("time/")}
    assert set(COMPARED) <= measured | times
    assert times == {f"time/{part}_s" for part in ("step", "rollout", "rows", "update", *SUMMED)}


def test_the_sampler_and_the_trainer_agree_on_every_log_probability(world: Path, whole: Path) -> None:
    policy = load_policy(world / "model")
    groups = read_groups(whole / "rollouts", 0)
    settings = config(world, whole)
    rows = group_rows(groups, policy.processor.renderer, settings.masking, settings.rollout.agent)
    minibatch = make_minibatches(rows, len(groups), config(world, whole, "batch.every_row=true"))[0]
    seen = 0
    for share in work_of(minibatch, settings, 1, 0):
        part = make_pass(minibatch, share, policy.processor)
        with torch.no_grad():
            mine = token_logprobs(policy.model, part.batch, policy.processor.vocabulary.banned)
        assert part.sampler is not None
        assert (mine - part.sampler).abs().max() < 1e-4
        seen += int((part.sampler < 0).sum())
    assert seen > 50
    assert all(line["mismatch/max"] < 1e-4 for line in steps(whole))


def test_the_mismatch_of_sampler_and_trainer_is_not_what_an_update_moved(
    world: Path, whole: Path, tmp_path: Path
) -> None:
    replay = f"debug.replay={whole / 'rollouts'}"
    changes = (replay, "batch.minibatches=3", "optim.lr=1e-2", "steps=2")
    train_rl(config(world, tmp_path / "run", *changes))
    lines = steps(tmp_path / "run")
    assert max(line["updates/taken"] for line in lines) > 1
    assert min(line["ratio/min"] for line in lines) < 0.9
    assert lines[0]["mismatch/max"] < 1e-4


def test_pictures_that_do_not_fill_their_places_are_named(world: Path, whole: Path) -> None:
    policy = load_policy(world / "model")
    settings = config(world, whole)
    groups = read_groups(whole / "rollouts", 0)
    row = group_rows(groups, policy.processor.renderer, settings.masking, settings.rollout.agent).rows[0]
    check_pictures(row, policy.processor)
    row.images, row.views = row.images[1:], row.views[1:]
    with pytest.raises(ValueError, match=f"sample {row.sample_id}: pictures of"):
        check_pictures(row, policy.processor)


@pytest.mark.parametrize(
    ("freeze", "changed"),
    [('["vision", "projector"]', {"language"}), ('["language", "projector"]', {"vision"})],
)
def test_frozen_parts_stay_the_same_to_the_bit(
    world: Path, tmp_path: Path, freeze: str, changed: set[str], whole: Path
) -> None:
    replay = f"debug.replay={whole / 'rollouts'}"
    train_rl(config(world, tmp_path / "run", replay, f"model.freeze={freeze}", "optim.weight_decay=0.1", "steps=1"))
    assert _changed(world / "model", tmp_path / "run" / "model") == changed


def test_gradient_accumulation_equals_one_pass(world: Path, whole: Path, tmp_path: Path) -> None:
    replay = f"debug.replay={whole / 'rollouts'}"
    for name, rows in (("a", 1), ("b", 64)):
        train_rl(config(world, tmp_path / name, replay, f"batch.micro_rows={rows}", "batch.minibatches=2"))
    for a, b in zip(steps(tmp_path / "a"), steps(tmp_path / "b"), strict=True):
        assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)


def test_rows_of_no_advantage_can_stay_out_of_the_model(world: Path, whole: Path, tmp_path: Path) -> None:
    replay = f"debug.replay={whole / 'rollouts'}"
    for aggregation in ("sequence_mean", "token_mean"):
        for every in ("false", "true"):
            changes = (replay, f"batch.every_row={every}", f"algorithm.aggregation={aggregation}")
            train_rl(config(world, tmp_path / f"{aggregation}-{every}", *changes))
        fewer, all_ = (steps(tmp_path / f"{aggregation}-{every}") for every in ("false", "true"))
        for a, b in zip(fewer, all_, strict=True):
            assert a["loss"] == pytest.approx(b["loss"], abs=1e-5)
            assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)


def test_a_step_that_teaches_nothing_is_skipped_and_counted(world: Path, tmp_path: Path) -> None:
    changes = ("rewards.accuracy=0", "rewards.format=0", "optim.weight_decay=0.5", "steps=2")
    summary = train_rl(config(world, tmp_path / "run", *changes))
    assert [(line["updates/taken"], line["updates/skipped"]) for line in steps(tmp_path / "run")] == [(0, 1), (0, 1)]
    assert all("loss" not in line and line["bn/p"] == 0 for line in steps(tmp_path / "run"))
    assert summary.skipped == 2
    assert weights(tmp_path / "run" / "model") == weights(world / "model")


def test_each_setting_of_the_update_changes_it(world: Path, whole: Path, tmp_path: Path) -> None:
    replay = f"debug.replay={graded(whole / 'rollouts', tmp_path / 'graded')}"
    several = ("batch.minibatches=3", "optim.lr=1e-2")
    settings = {
        "plain": (),
        "lr": ("optim.lr=1e-4",),
        "schedule": ('optim.schedule="linear"',),
        "clip": ("optim.clip=0.01",),
        "decay": ("optim.weight_decay=0.5",),
        "token": ("algorithm.ratio=token", *several),
        "minibatches": several,
        "old": (*several, "batch.old_logprobs=trainer"),
        "tis": ("batch.old_logprobs=trainer", "algorithm.tis_cap=0.5"),
        "clip ratio": (*several, "algorithm.eps_low=0.9", "algorithm.eps_high=9.0"),
        "tokens": ("algorithm.aggregation=token_mean",),
        "advantage": ("algorithm.advantage=dr_grpo",),
        "entropy": ("algorithm.entropy=0.1",),
        "kl": ("algorithm.beta=10.0",),
        "lora": ("model.lora={rank=4}",),
        "lora kl": ("model.lora={rank=4}", "algorithm.beta=10.0"),
        "temperature": ("rollout.agent.sampling.temperature=2.0",),
    }
    found = {}
    for name, changes in settings.items():
        train_rl(config(world, tmp_path / name, replay, "steps=2", "batch.micro_rows=36", *changes))
        found[name] = tuple(weights(tmp_path / name / "model").items())
    same = {(a, b) for a in found for b in found if a < b and found[a] == found[b]}
    assert not same


def test_the_reference_is_the_model_before_training(world: Path, whole: Path, tmp_path: Path) -> None:
    """No KL before anything was learnt, some after; with adapters switched off as with weights of its own."""
    replay = f"debug.replay={whole / 'rollouts'}"
    for name, change in (("own", "model.lora={rank=4, alpha=400}"), ("adapters", "model.freeze=[]")):
        train_rl(config(world, tmp_path / name, replay, change, "algorithm.beta=0.01", "optim.lr=1e-2"))
        first, second, _ = steps(tmp_path / name)
        assert first["kl"] == pytest.approx(0, abs=1e-9)
        assert second["kl"] > 1e-4


def test_validation_picks_the_best_weights(world: Path, ruined: Path) -> None:
    checked = {line["step"]: line["validation/success"] for line in metrics(ruined) if "validation/success" in line}
    assert sorted(checked) == [0, 1, 2, 3]
    best = max(checked, key=lambda step: (checked[step], -step))
    summary = json.loads((ruined / "summary.json").read_text())
    assert (summary["best_step"], summary["best_success"]) == (best, checked[best])
    assert checked[3] < checked[best]
    assert weights(ruined / "model") != weights(ruined / "last")
    assert (weights(ruined / "model") == weights(world / "model")) == (best == 0)


def test_playing_and_training_can_be_taken_apart(world: Path, whole: Path, tmp_path: Path) -> None:
    """Training on a run's recorded episodes gives that run; playing alone changes no weight."""
    only = train_rl(config(world, tmp_path / "only", "debug.rollout_only=true", "steps=2"))
    assert only.model is None
    assert len(read_groups(tmp_path / "only" / "rollouts", 1)) == 6
    first = next(line for line in steps(whole) if line["step"] == 1)
    assert steps(tmp_path / "only")[0]["reward/mean"] == first["reward/mean"]
    train_rl(config(world, tmp_path / "again", f"debug.replay={whole / 'rollouts'}"))
    assert steps(tmp_path / "again") == steps(whole)
    assert weights(tmp_path / "again" / "model") == weights(whole / "model")
    with pytest.raises(UserError, match="no record of step 3"):
        train_rl(config(world, tmp_path / "more", f"debug.replay={whole / 'rollouts'}", "steps=4"))


def test_a_step_whose_gradient_is_no_number_ends_the_run_and_leaves_no_checkpoint(
    world: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss itself is finite; the weights are worth nothing after such a step."""
    compute, run = PolicyTrainer._compute_loss, tmp_path / "run"

    def torn(self: Any, model: Any, inputs: Any) -> Any:
        found = compute(self, model, inputs)
        return found + (found - found.detach()).abs().sqrt()

    monkeypatch.setattr(PolicyTrainer, "_compute_loss", torn)
    replay = graded(whole / "rollouts", tmp_path / "graded")
    with pytest.raises(UserError, match=r"step 1: grad_norm is nan; start with a lower optim\.lr"):
        train_rl(config(world, run, f"debug.replay={replay}", "save.every=1"))
    assert checkpoints(run) == []


def test_a_resumed_run_has_the_learning_rate_of_its_step(tmp_path: Path) -> None:
    def rates(first: int) -> list[float]:
        run = RlRun.__new__(RlRun)
        run.config = config(tmp_path, tmp_path, "steps=4", "optim.schedule=linear", "optim.warmup=0.25")
        run.optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        plan, found = Plan(first, 4, 2), []
        schedule = run._schedule(plan)
        for _ in range(plan.updates):
            found.append(schedule.get_last_lr()[0])
            run.optimizer.step()
            schedule.step()
        return found

    assert len(set(rates(0))) > 4
    assert rates(2) == rates(0)[4:]
