"""The verb `ablate`: what it says before it runs anything, and of results that are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.ablation_results import make_results
from vlagent.cli.main import main
from vlagent.config import load_config
from vlagent.train.ablate.config import AblateConfig
from vlagent.train.ablate.plan import cells_of, config_of, jobs_of

ROOT = Path(__file__).parent.parent.parent
SHIPPED = sorted((ROOT / "configs" / "ablate").glob("*.toml"))
CONFIG = """
run = "work"
results = "results"
base = "base.toml"
seeds = [1, 2]
[arms.gspo]
algorithm.advantage = "gspo"
[arms.bn_gspo]
[mixes.hybrid]
[starts.full]
model.path = "start"
[[grid]]
arms = ["gspo", "bn_gspo"]
mixes = ["hybrid"]
starts = ["full"]
[[prepare]]
run = "toy make world"
makes = "world/manifest.json"
[evaluation]
data = "world/manifest.json:toy_test"
[limits]
core_minutes = 3.0
parallel = 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ablate.toml").write_text(CONFIG)
    (tmp_path / "base.toml").write_text('[model]\npath = "m"\n[data]\nsources = [{ data = "d" }]\n')
    return tmp_path


def test_a_dry_run_lists_every_command_and_what_it_may_cost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablate", "ablate.toml", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "todo  vlagent toy make world"
    assert sum(line.startswith("todo  vlagent rl base.toml") for line in lines) == 4
    assert sum(line.startswith("todo  vlagent eval world/manifest.json:toy_test") for line in lines) == 5
    assert lines[-1] == "5 runs, 4 trainings left: 12 core-minutes at most, 6 on 2 cores"
    assert not (folder / "work").exists()


def test_a_dry_run_takes_overrides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablate", "ablate.toml", "seeds=[7]", "limits.parallel=1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "seed=7" in out
    assert out.endswith("3 runs, 2 trainings left: 6 core-minutes at most, 6 on 1 cores\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["seeds=[1]"], "one configuration file is expected"),
        (["ablate.toml", "ablate.toml"], "one configuration file is expected"),
        (["none.toml"], "none.toml: no such configuration file"),
        (["ablate.toml", "arms.gspo={optim = {rate = 1}}", "--dry-run"], "optim.rate: unknown key"),
        (["ablate.toml", "base=none.toml", "--dry-run"], "none.toml: no such configuration file"),
        (["ablate.toml", "--page"], "holds no result of an ablation"),
    ],
)
def test_a_mistake_is_one_line(folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ablate", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_page_writes_and_prints_what_the_results_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_results(folder / "results")
    assert main(["ablate", "ablate.toml", "--page"]) == 0
    out = capsys.readouterr().out
    assert "bn_gspo is better." in out
    assert (folder / "results" / "page.html").exists()
    assert "No difference was found" in (folder / "results" / "table.md").read_text()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_ablation_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    config = load_config(AblateConfig, path)
    if not Path(config.base).exists():
        pytest.skip(f"{config.base} is not there")
    for job in jobs_of(config):
        assert config_of(config, job).seed == job.seed


def test_the_shipped_ablation_holds_what_it_should_compare() -> None:
    config = load_config(AblateConfig, ROOT / "configs" / "ablate" / "toy_algorithms.toml")
    cells = set(cells_of(config))
    assert {(arm, "hybrid", "full") for arm in ("grpo", "gspo", "bn_gspo", "bn_gspo_clip")} <= cells
    assert {("bn_gspo", mix, "full") for mix in ("hybrid", "search", "perception")} <= cells
    assert ("bn_gspo", "hybrid", "tenth") in cells
    assert len(config.seeds) >= 5
    clipped = config.arms["bn_gspo_clip"]
    assert (clipped["batch"]["minibatches"], clipped["algorithm"]["eps_low"], clipped["algorithm"]["eps_high"]) == (
        4,
        3e-4,
        4e-4,
    )
    assert {config.arms[arm]["algorithm"]["aggregation"] for arm in config.arms} == {"sequence_mean"}
    assert config.limits.core_minutes <= 4
