"""The launch scripts: what they hand to veRL, what they print, and which processes they end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="veRL has an environment of its own: make test-verl")

from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.ppo.reward import resolve_reward_manager_cls
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from vlagent.config import load_config
from vlagent.integrations.verl import config as loop_config
from vlagent.integrations.verl.estimator import NAMES
from vlagent.train.rl.algorithms.config import ALGORITHM_PRESETS, AlgorithmConfig
from vlagent.train.rl.algorithms.registry import ADVANTAGES

LAUNCH = Path(loop_config.__file__).parent / "launch"
SETTINGS = {"MODEL": "/models/7b", "TRAIN": "/data/m.json:mars", "VAL": "/data/m.json:val", "LOOP": "/data/loop.toml"}
SECRETS = {"WANDB_API_KEY": "secret-of-wandb", "VLAGENT_API_KEY": "secret-of-judge"}
RATIO = {"gspo": "sequence", "vanilla": "token"}
AGGREGATION = {"seq-mean-token-mean": "sequence_mean", "token-mean": "token_mean"}


def launch(script: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **SETTINGS, **SECRETS, **environment}
    return subprocess.run(
        [str(LAUNCH / script), *words], capture_output=True, text=True, env=given, check=False, timeout=200
    )


def composed(*words: str, **environment: str):
    """veRL's whole configuration as the script would start it."""
    run = launch("one_node.sh", *words, DRY_RUN="1", **environment)
    assert run.returncode == 0, run.stderr
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=run.stdout.splitlines())


@pytest.mark.parametrize("preset", ALGORITHM_PRESETS)
def test_the_scripts_hand_verl_the_published_settings(preset: str) -> None:
    config = composed(PRESET=preset)
    actor = config.actor_rollout_ref.actor
    wanted = AlgorithmConfig.model_validate(ALGORITHM_PRESETS[preset])
    assert ADVANTAGES[NAMES[config.algorithm.adv_estimator]] is ADVANTAGES[wanted.advantage]
    assert RATIO[actor.policy_loss.loss_mode] == wanted.ratio
    assert AGGREGATION[actor.loss_agg_mode] == wanted.aggregation
    assert (actor.clip_ratio_low, actor.clip_ratio_high) == (wanted.eps_low, wanted.eps_high)
    assert (actor.kl_loss_coef if actor.use_kl_loss else 0.0) == wanted.beta
    assert wanted.dual_clip in (None, actor.clip_ratio_c)
    assert actor.optim.lr == {"mars-released-script": 1e-5}.get(preset, 1e-6)
    minibatches = config.data.train_batch_size // actor.ppo_mini_batch_size
    assert minibatches == {"gspo-paper": 4}.get(preset, 1)
    assert (config.data.train_batch_size, config.actor_rollout_ref.rollout.n) == (128, 8)


@pytest.mark.parametrize("preset", ALGORITHM_PRESETS)
def test_verl_accepts_the_configuration(preset: str) -> None:
    """By the checks that its main program makes before it starts anything."""
    config = composed(PRESET=preset)
    reference, critic = need_reference_policy(config), need_critic(config)
    assert reference is (preset == "mars-paper")
    assert not critic
    validate_config(config, use_reference_policy=reference, use_critic=critic)
    assert omega_conf_to_dataclass(config.actor_rollout_ref.rollout).agent.default_agent_loop == "vlagent"
    assert resolve_reward_manager_cls(config).__name__ == "TrajectoryReward"
    assert SETTINGS["LOOP"] == config.ray_kwargs.ray_init.runtime_env.env_vars.VLAGENT_VERL_LOOP


def test_further_arguments_win() -> None:
    assert composed("data.train_batch_size=64", NODES="4").data.train_batch_size == 64


def test_the_loop_is_found_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLAGENT_VERL_LOOP", "/data/loop.toml")
    (entry,) = OmegaConf.to_container(OmegaConf.load(LAUNCH / "loops.yaml"), resolve=True)
    assert entry == {
        "name": "vlagent",
        "_target_": "vlagent.integrations.verl.agent_loop.VlagentLoop",
        "vlagent_config": "/data/loop.toml",
    }


def test_the_loops_settings_are_the_papers() -> None:
    agent = load_config(loop_config.LoopConfig, LAUNCH / "loop.toml").rollout.agent
    assert (agent.max_turns, agent.max_tokens_turn, agent.max_tokens_total) == (10, 8192, 32768)


@pytest.mark.parametrize("name", ["MODEL", "TRAIN", "VAL", "LOOP"])
def test_a_setting_that_is_missing_is_named(name: str) -> None:
    run = launch("one_node.sh", **{name: ""})
    assert run.returncode != 0
    assert name in run.stderr


def test_another_preset_or_role_is_refused() -> None:
    assert "there are mars-paper" in launch("one_node.sh", PRESET="mars").stderr
    assert "write head or worker" in launch("several_nodes.sh", "tail", RAY_HEAD="127.0.0.1").stderr


def _fake(folder: Path, name: str, body: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_no_secret_reaches_a_command_line_or_the_screen(tmp_path: Path) -> None:
    python = _fake(tmp_path, "python", 'printf "%s\\n" "$0" "$@"; exit 0')
    run = launch("one_node.sh", PYTHON=python)
    assert "verl.trainer.main_ppo" in run.stdout
    for secret in SECRETS.values():
        assert secret not in run.stdout + run.stderr


def test_the_end_of_a_run_ends_its_own_ray_node_and_nothing_else(tmp_path: Path) -> None:
    """With a Ray in its place that says what it is asked, a stranger of the same name outlives the run."""
    ray = _fake(
        tmp_path,
        "ray",
        f'echo "$@" >> {tmp_path}/asked; trap "echo ended >> {tmp_path}/asked; exit" TERM\n'
        "while true; do sleep 0.1; done",
    )
    python = _fake(tmp_path, "python", "echo 2")
    stranger = subprocess.Popen([ray, "of", "somebody", "else"])
    try:
        run = launch("several_nodes.sh", "head", RAY=ray, PYTHON=python, RAY_HEAD="127.0.0.1", NODES="2", DRY_RUN="1")
        assert run.returncode == 0, run.stderr
        assert "+ray_kwargs.ray_init.address='127.0.0.1:6379'" in run.stdout
        asked = (tmp_path / "asked").read_text().splitlines()
        assert asked.count("ended") == 1
        assert not any(line.startswith("stop") for line in asked)
        assert stranger.poll() is None
    finally:
        stranger.terminate()
        stranger.wait()


def test_machines_that_do_not_come_end_the_wait_with_exit_3(tmp_path: Path) -> None:
    ray = _fake(tmp_path, "ray", 'trap "exit" TERM; while true; do sleep 0.1; done')
    python = _fake(tmp_path, "python", "echo 1")
    run = launch("several_nodes.sh", "head", RAY=ray, PYTHON=python, RAY_HEAD="127.0.0.1", NODES="2", WAIT_S="1")
    assert run.returncode == 3
    assert "1 of 2 machines joined" in run.stderr
