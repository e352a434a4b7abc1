"""`bn_gspo` as veRL finds it, called as veRL calls it."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("verl", reason="veRL has an environment of its own: make test-verl")

import torch
from omegaconf import OmegaConf
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from tests.train.rl.algorithms.parts import advantage, rewards_of

GROUPS = [[1.5, 0.5, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [0.5, 0.0, 0.0, 1.5]]


def batch_of(groups: list[list[float]], length: int = 5) -> DataProto:
    """A rollout batch: rewards on the last token, a mask with holes, prompts named by uid."""
    rewards = rewards_of(groups)
    mask = torch.ones(len(rewards.total), length)
    mask[:, 2] = 0
    scores = torch.zeros(len(rewards.total), length)
    scores[:, -1] = torch.from_numpy(rewards.total).float()
    uid = np.array([f"prompt {number}" for number in rewards.group], dtype=object)
    return DataProto.from_dict({"token_level_rewards": scores, "response_mask": mask}, non_tensors={"uid": uid})


def advantages_in_verl(data: DataProto, name: str = "bn_gspo", **options: float) -> np.ndarray:
    """By the function that veRL's trainer calls."""
    keys = [f"{uid}_{i}_0" for i, uid in enumerate(data.non_tensor_batch["uid"])]
    config = OmegaConf.create({"adv_estimator": name, **options})
    done = compute_advantage_for_multi_trajectories(data, keys, name, config=config)
    return done.batch["advantages"].numpy()


def test_importing_verl_is_enough_to_have_it() -> None:
    assert get_adv_estimator_fn("bn_gspo").__module__ == "vlagent.integrations.verl.estimator"


def test_it_can_be_named_in_the_environment_where_entry_points_are_off() -> None:
    code = (
        "import verl; from verl.trainer.ppo.core_algos import get_adv_estimator_fn as f; print(f('bn_gspo').__module__)"
    )
    environment = os.environ | {
        "VERL_USE_EXTERNAL_PLUGINS": "none",
        "VERL_USE_EXTERNAL_MODULES": "vlagent.integrations.verl.plugin",
    }
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert run.stdout.strip().endswith("vlagent.integrations.verl.estimator"), run.stderr


def test_verls_trainer_gets_our_advantages_on_every_trained_token() -> None:
    found = advantages_in_verl(batch_of(GROUPS))
    ours = advantage("bn_gspo", rewards_of(GROUPS)).values
    assert found[:, 0] == pytest.approx(ours, abs=1e-6)
    assert (found[:, [0, 1, 3, 4]] == found[:, :1]).all()
    assert not found[:, 2].any()
    assert (found[4:8] == 0.0).all()


def test_episodes_that_must_not_train_are_no_part_of_any_statistic() -> None:
    spoilt = batch_of([[1.5, 0.5, 0.0, 0.0, 1.5], *GROUPS[1:]])
    spoilt.batch["response_mask"][4] = 0
    kept = [row for row in range(13) if row != 4]
    assert advantages_in_verl(spoilt)[kept] == pytest.approx(advantages_in_verl(batch_of(GROUPS)), abs=1e-6)
    assert not advantages_in_verl(spoilt)[4].any()


@pytest.mark.parametrize("name", ["vlagent_grpo", "vlagent_gspo", "vlagent_dr_grpo", "vlagent_reinforce_pp"])
def test_the_other_algorithms_are_there_under_names_of_their_own(name: str) -> None:
    spoilt = batch_of([*GROUPS, [1.0]])
    spoilt.batch["response_mask"][12] = 0
    ours = advantage(name.removeprefix("vlagent_"), rewards_of(GROUPS)).values
    assert advantages_in_verl(spoilt, name)[:12, 0] == pytest.approx(ours, abs=1e-6)


def test_its_options_are_read_from_verls_configuration() -> None:
    plain = advantages_in_verl(batch_of(GROUPS))
    assert abs(advantages_in_verl(batch_of(GROUPS), bn_max_factor=1.01)).max() < abs(plain).max()
    assert abs(advantages_in_verl(batch_of(GROUPS), exclude_degenerate=True)).max() < abs(plain).max()


def test_a_batch_that_teaches_nothing_gives_zeros() -> None:
    assert (advantages_in_verl(batch_of([[0.7] * 7, [1.3] * 7])) == 0.0).all()
