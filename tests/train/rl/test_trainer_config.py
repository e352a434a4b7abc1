from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vlagent.cli.main import main
from vlagent.config import load_config, make_config
from vlagent.errors import UserError
from vlagent.train.rl.config import RlConfig
from vlagent.train.rl.presets import PRESETS

RECIPES = sorted((Path(__file__).parents[3] / "configs" / "rl").glob("*.toml"))
LEAST: dict[str, Any] = {"model": {"path": "m"}, "data": {"sources": [{"data": "rows.jsonl"}]}}


def _preset(name: str, **more: Any) -> RlConfig:
    return make_config(RlConfig, LEAST | {"preset": name} | more)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mars-paper", ("bn_gspo", "sequence", "sequence_mean", 0.2, 0.28, 1e-4, None, 1e-6, 1, 32768, None)),
        ("mars-released-script", ("grpo", "token", "token_mean", 0.2, 0.28, 0.0, 3.0, 1e-5, 1, 32768, 1.5)),
        ("gspo-paper", ("gspo", "sequence", "sequence_mean", 3e-4, 4e-4, 0.0, None, 1e-6, 4, 32768, None)),
    ],
)
def test_presets_hold_the_published_values(name: str, expected: tuple[Any, ...]) -> None:
    config = _preset(name)
    algorithm, agent = config.algorithm, config.rollout.agent
    shape = (algorithm.advantage, algorithm.ratio, algorithm.aggregation, algorithm.eps_low, algorithm.eps_high)
    rest = (algorithm.beta, algorithm.dual_clip, config.optim.lr, config.batch.minibatches, agent.max_tokens_total)
    assert (*shape, *rest, agent.sampling.presence_penalty) == expected
    assert (config.batch.prompts, config.batch.samples, agent.max_turns) == (128, 8, 10)
    assert agent.sampling.temperature == 1.0
    assert (config.optim.schedule, config.model.freeze) == ("constant", ("vision", "projector"))
    assert (config.rewards.accuracy, config.rewards.format) == (1.0, 0.5)


def test_the_judges_of_the_papers_are_named() -> None:
    judges = {name: _preset(name).rewards.judge for name in PRESETS}
    names = {name: judge.model if judge else None for name, judge in judges.items()}
    assert names == {
        "mars-paper": "Qwen/Qwen2.5-VL-72B-Instruct",
        "mars-released-script": "Qwen/Qwen3-VL-32B-Instruct",
        "gspo-paper": None,
    }
    assert _preset("mars-released-script").seed == 3407


def test_what_a_configuration_says_wins_over_its_preset() -> None:
    config = _preset("mars-paper", algorithm={"beta": 0.5}, batch={"prompts": 4})
    assert (config.algorithm.beta, config.algorithm.advantage) == (0.5, "bn_gspo")
    assert (config.batch.prompts, config.batch.samples) == (4, 8)


def test_validation_plays_as_the_rollouts_do_unless_it_says_otherwise() -> None:
    config = _preset("mars-paper", validation={"data": "rows.jsonl"})
    assert config.validation is not None
    assert config.validation.agent == config.rollout.agent
    other = _preset("mars-paper", validation={"data": "rows.jsonl", "agent": {"max_turns": 3}})
    assert other.validation is not None
    assert other.validation.agent.max_turns == 3


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_a_whole_run(path: Path) -> None:
    config = load_config(RlConfig, path)
    assert config.run == f"runs/{path.stem}"
    if config.validation:
        assert config.validation.agent == config.rollout.agent


def test_recipes_are_those_that_the_guide_names() -> None:
    names = ["mars_32b", "mars_7b", "mars_8b", "toy_bn_gspo", "toy_bn_gspo_clip", "toy_gspo", "toy_grpo"]
    assert [path.stem for path in RECIPES] == sorted(names)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["preset=x"], "no preset 'x'"),
        (["preset=[1]"], r"no preset \[1\]"),
        (["optim.lr=inf"], "optim.lr"),
        (["algorithm.beta=inf"], "algorithm.beta"),
        (["algorithm.entropy=inf"], "algorithm.entropy"),
        (["rewards.plugins={extra=nan}"], "rewards.plugins.extra"),
        (["rollout.tool_limits={text_search=0}"], "rollout.tool_limits.text_search"),
        (["batch.samples=1"], "batch.samples = 1: bn_gspo compares the episodes"),
        (["batch.prompts=2", "batch.minibatches=4"], r"minibatches = 4: there are only 2 prompts"),
        (["model.freeze=['vision', 'projector', 'language']"], "nothing would be trained"),
        (["model.mixed_precision=fp16"], 'use "bf16"'),
        (["debug.rollout_only=true", "debug.replay=r"], "exclude each other"),
        (["algorithm.tis_cap=2.0"], r'set batch\.old_logprobs = "trainer"'),
        (["rollout.agent.sampling.temperature=0.0"], "plays one episode again and again"),
        (["validation.every=3"], r"validation\.data names the manifest"),
        (["steps=0"], "steps = 0"),
        (["nonsense=1"], "nonsense: unknown key"),
    ],
)
def test_a_mistake_is_one_line_with_the_fix(changes: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_config(RlConfig, LEAST, changes)
    assert "\n" not in str(caught.value)


def test_a_configuration_is_read_without_torch() -> None:
    code = "import sys, vlagent.train.rl.config, vlagent.cli.rl; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_dry_run_and_plan_print_settings_and_memory(tiny: Path, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "c.toml"
    file.write_text(f'[model]\npath = "{tiny}"\n[[data.sources]]\ndata = "rows.jsonl"\n')
    assert main(["plan", str(file)]) == 0
    planned = capsys.readouterr().out
    assert '"verb": "rl"' in planned
    assert "  reference " in planned
    assert main(["rl", str(file), "--dry-run"]) == 0
    assert capsys.readouterr().out == planned
    assert main(["rl", str(file), "--dry-run", "optim.lr=0.25"]) == 0
    assert '"lr": 0.25' in capsys.readouterr().out
    assert main(["rl", "--dry-run", "optim.lr=0.25", str(file), "--lr=1"]) == 2
    assert "unrecognized arguments: --lr=1" in capsys.readouterr().err
    assert main(["rl"]) == 2
    assert "which configuration?" in capsys.readouterr().err


@pytest.mark.parametrize("recipe", ["rl/mars_7b", "rl/mars_8b", "rl/mars_32b", "sft/mars_7b_sft"])
def test_a_recipe_shows_its_settings_before_its_model_is_there(recipe: str, capsys: Any) -> None:
    verb = recipe.split("/")[0]
    words = [str(RECIPES[0].parents[1] / f"{recipe}.toml"), "model.path=/no/model", "--dry-run"]
    assert main([verb, *words]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["optim"]["lr"] == {"rl": 1e-6, "sft": 1e-5}[verb]
    assert said.err == "vlagent: model.path = '/no/model': no config.json there, so not a checkpoint folder\n"


def test_the_plan_counts_a_reference_model_only_where_there_is_one(tiny: Path) -> None:
    from vlagent.train.plan import plan_rl

    table = LEAST | {"model": {"path": str(tiny)}}
    own, none = plan_rl(make_config(RlConfig, table)), plan_rl(make_config(RlConfig, table, ["algorithm.beta=0.0"]))
    adapters = plan_rl(make_config(RlConfig, table, ["model.lora={rank=4}"]))
    assert own.reference == own.weights > 0
    assert none.reference == adapters.reference == 0
    assert own.total == none.total + own.reference


def test_pixel_limits_of_another_family_are_refused(world: Path, tmp_path: Path) -> None:
    from tests.train.rl.world import config
    from vlagent.train.rl.run import train_rl

    change = "rollout.agent.pixels={factor=28, min_pixels=65536, max_pixels=131072}"
    with pytest.raises(UserError, match=r"rollout\.agent\.pixels\.factor = 28: .* wants 16"):
        train_rl(config(world, tmp_path / "run", change))
