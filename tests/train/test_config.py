from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vlagent.config import load_config, make_config
from vlagent.errors import UserError
from vlagent.train.config import SftConfig
from vlagent.train.folder import check_same_run

ROOT = Path(__file__).parents[2]
LEAST = {"model": {"path": "m"}, "sources": [{"run": "r"}]}


@pytest.mark.parametrize("name", ["mars_7b_sft", "toy_sft", "toy_sft_clean"])
def test_every_shipped_configuration_is_valid(name: str) -> None:
    config = load_config(SftConfig, ROOT / "configs" / "sft" / f"{name}.toml")
    assert config.run == f"runs/{name}"


def test_the_papers_preset_fills_in_what_is_not_said() -> None:
    config = make_config(SftConfig, LEAST | {"preset": "mars-paper-sft", "epochs": 1, "optim": {"warmup": 0.1}})
    assert (config.optim.lr, config.optim.warmup, config.epochs) == (1e-5, 0.1, 1)
    assert set(config.model.freeze) == {"vision", "projector"}
    assert load_config(SftConfig, ROOT / "configs/sft/mars_7b_sft.toml").epochs == 3


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optim.lrr=1", r"^optim\.lrr: unknown key"),
        ("optim.lr=-1", r"^optim\.lr = -1: "),
        ("preset=none", r"no preset 'none'; there are mars-paper-sft"),
        ('model.freeze=["vision","projector","language"]', r"nothing would be trained"),
        ("sources=[]", r"^sources = \[\]: "),
        ("batch.rows=0", r"^batch\.rows = 0: "),
        ("optim.lr=inf", r"^optim\.lr = inf: "),
        ("optim.betas=[0.9, 1.0]", r"^optim\.betas\.1 = 1\.0: "),
        ('sources=[{run = "x", share = inf}]', r"^sources\.0\.share = inf: "),
        ('sources=[{run = "x", weight = inf}]', r"^sources\.0\.weight = inf: "),
        ('validation.search="x"', r"validation measures nothing"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(override: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        make_config(SftConfig, {**LEAST}, [override])
    assert "\n" not in str(error.value)


def test_configurations_are_read_without_torch() -> None:
    code = "import sys, vlagent.train.config, vlagent.train.folder, vlagent.cli.sft; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_resumed_run_may_change_only_what_decides_no_result() -> None:
    config = make_config(SftConfig, {**LEAST})
    check_same_run(config, make_config(SftConfig, {**LEAST}, ["save.every=7", "batch.micro_rows=1"]), Path("r"))
    with pytest.raises(UserError, match=r"optim\.lr was 1e-05 and is now 0\.1"):
        check_same_run(config, make_config(SftConfig, {**LEAST}, ["optim.lr=0.1"]), Path("r"))
