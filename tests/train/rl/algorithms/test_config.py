from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from tests.train.rl.algorithms.parts import advantage, rewards_of
from vlagent import plugins
from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.train.rl.algorithms import registry
from vlagent.train.rl.algorithms.config import ALGORITHM_PRESETS, AlgorithmConfig

TABLE = {
    "mars-paper": ("bn_gspo", "sequence", "sequence_mean", 0.2, 0.28, 1e-4, None),
    "mars-released-script": ("grpo", "token", "token_mean", 0.2, 0.28, 0.0, 3.0),
    "gspo-paper": ("gspo", "sequence", "sequence_mean", 3e-4, 4e-4, 0.0, None),
}


@pytest.mark.parametrize("name", TABLE)
def test_presets_are_the_published_settings(name: str) -> None:
    found = AlgorithmConfig.model_validate(ALGORITHM_PRESETS[name])
    values = (found.advantage, found.ratio, found.aggregation, found.eps_low, found.eps_high)
    assert (*values, found.beta, found.dual_clip) == TABLE[name]


def test_there_are_no_other_presets() -> None:
    assert set(ALGORITHM_PRESETS) == set(TABLE)


def test_the_defaults_are_the_papers() -> None:
    assert AlgorithmConfig() == AlgorithmConfig.model_validate(ALGORITHM_PRESETS["mars-paper"])


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("advantage", "bngspo", "no such algorithm; there are grpo"),
        ("ratio", "turn", "ratio = 'turn'"),
        ("eps_low", 1.5, "eps_low = 1.5"),
        ("beta", -1, "beta = -1"),
        ("dual_clip", 1.1, "must be above 1 + eps_high"),
        ("bn_max_factor", 0, "bn_max_factor = 0"),
        ("epsilon", 0.2, "epsilon: unknown key"),
    ],
)
def test_a_mistake_is_one_line_that_names_it(key: str, value: object, says: str) -> None:
    with pytest.raises(UserError) as caught:
        make_config(AlgorithmConfig, {key: value})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def _offer(monkeypatch: pytest.MonkeyPatch, folder: Path, value: str) -> None:
    """Another package that brings an advantage `mine`."""
    (folder / "elsewhere.py").write_text(
        "import numpy as np\n"
        "from vlagent.train.rl.algorithms.base import Advantages\n"
        "def mine(rewards, config):\n"
        "    return Advantages(rewards.total * 3, np.zeros(len(rewards.total), bool), 1.0, None)\n"
        "number = 3\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "elsewhere", raising=False)
    points = EntryPoints([EntryPoint("mine", value, registry.GROUP)])
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))


def test_another_package_brings_an_advantage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _offer(monkeypatch, tmp_path, "elsewhere:mine")
    assert advantage("mine", rewards_of([[1, 0]])).values.tolist() == [3.0, 0.0]
    assert AlgorithmConfig(advantage="mine").advantage == "mine"
    assert "mine" in registry.advantage_names()


@pytest.mark.parametrize(
    ("value", "says"),
    [("elsewhere:gone", "cannot be loaded"), ("nowhere:mine", "cannot be loaded"), ("elsewhere:number", "a function")],
)
def test_a_broken_advantage_is_the_users_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, says: str
) -> None:
    _offer(monkeypatch, tmp_path, value)
    with pytest.raises(UserError, match=says):
        advantage("mine", rewards_of([[1, 0]]))
