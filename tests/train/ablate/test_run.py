"""An ablation through kills, failures and limits: nothing twice, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.train.ablate.conftest import STAND_IN
from vlagent.bench.ablation import BEFORE, RunResult, accuracy, analyse, read_results
from vlagent.errors import UserError
from vlagent.files import iter_jsonl, only_writer
from vlagent.train.ablate.config import AblateConfig
from vlagent.train.ablate.run import run_ablation

Make = Callable[..., AblateConfig]
pytestmark = pytest.mark.usefixtures("stand_in")


def results(config: AblateConfig) -> dict[str, RunResult]:
    found = read_results(Path(config.results) / "runs")
    return {f"{run.arm}-{run.seed}": run for run in found}


def spent(config: AblateConfig, job: str) -> list[dict[str, Any]]:
    return list(iter_jsonl(Path(config.run) / "jobs" / job / "spent.jsonl"))


def starts(config: AblateConfig, job: str) -> list[str]:
    return [line["stage"] for line in spent(config, job) if line.get("started")]


def test_every_run_has_a_result_with_its_curve_its_answers_and_its_commands(make: Make) -> None:
    config = make()
    assert run_ablation(config).ended == "complete"
    found = results(config)
    assert sorted(found) == ["before-0", "bn_gspo-1", "bn_gspo-2", "gspo-1", "gspo-2"]
    run = found["bn_gspo-2"]
    assert run.outcomes == "111000000-"
    assert run.curves["success/all"] == ((1, 2, 3), (0.41, 0.42, 0.43))
    assert (run.steps, run.calls, run.redundant, run.interrupted) == (3, 2.0, 1.0, 0)
    assert [command.split()[1] for command in run.commands] == ["rl", "eval"]
    assert found["before-0"].curves == {}
    (contrast,) = analyse(list(found.values())).contrasts
    assert contrast.seeds.mean == pytest.approx(1 / 9)


def test_nothing_that_is_finished_is_done_again(make: Make) -> None:
    config = make()
    run_ablation(config)
    path = Path(config.results) / "runs" / "gspo-hybrid-full-s1.json"
    before = {file: file.stat().st_mtime_ns for file in path.parent.iterdir()}
    path.unlink()
    run_ablation(make("seeds=[1,2,3]"))
    assert starts(config, "gspo-hybrid-full-s1") == ["rl", "eval"]  # its folders were all there
    assert path.exists()
    assert all(file.stat().st_mtime_ns == at for file, at in before.items() if file != path)
    assert len(results(config)) == 7


def test_a_training_that_is_killed_goes_on_where_it_was(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "gspo-hybrid-full-s1:die")
    config = make()
    assert run_ablation(config).ended == "complete"
    assert starts(config, "gspo-hybrid-full-s1") == ["rl", "rl", "eval"]
    assert results(config)["gspo-1"].curves["success/all"][0] == (1, 2, 3)


def test_an_ablation_that_is_killed_leaves_no_orphan_and_goes_on(make: Make, tmp_path: Path) -> None:
    config = make()
    code = (
        "import sys; from pathlib import Path\n"
        "from vlagent.train.ablate import plan, run, work\n"
        "from vlagent.train.ablate.config import AblateConfig\n"
        f"command = lambda words: [sys.executable, '-I', '-S', {STAND_IN!r}, *words]\n"
        "plan.command = run.command = work.command = command\n"
        "work.TALLY_EVERY_S = 0.1\n"
        "run.run_ablation(AblateConfig.model_validate_json(Path(sys.argv[1]).read_text()))\n"
    )
    (tmp_path / "config.json").write_text(config.model_dump_json())
    environment = {**os.environ, "STAND_IN": "gspo-hybrid-full-s1:burn"}
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "config.json")], env=environment)
    metrics = Path(config.run) / "jobs" / "gspo-hybrid-full-s1" / "rl" / "metrics.jsonl"
    while not (metrics.exists() and len(metrics.read_text().splitlines()) == 2 and noted(config) > 0.5):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while _holds(metrics.parent) or _is_locked(Path(config.run)):
        time.sleep(0.02)
    assert run_ablation(config).ended == "complete"
    found = results(config)
    assert len(found) == 5
    assert found["gspo-1"].interrupted == 1
    assert found["gspo-1"].core_s > 0.5  # what the killed one used is known
    assert found["gspo-1"].curves["success/all"][0] == (1, 2, 3)


def noted(config: AblateConfig) -> float:
    """Processor seconds that were noted of a running training."""
    return max((line.get("so_far_s", 0.0) for line in spent(config, "gspo-hybrid-full-s1")), default=0.0)


def _is_locked(folder: Path) -> bool:
    """Whether a child that was just being started still has the lock of its dead parent."""
    try:
        with only_writer(folder):
            return False
    except UserError:
        return True


def _holds(run: Path) -> bool:
    """Whether any process still has the run folder among its words."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f'run="{run}"'.encode() in entry.read_bytes():
                return True
        except OSError:
            continue
    return False


def test_a_run_that_needs_too_much_time_is_ended_and_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "gspo-hybrid-full-s1:burn")
    config = make("limits.core_minutes=0.05")
    outcome = run_ablation(config)
    assert outcome.ended == "failures"
    assert list(outcome.failed) == ["gspo-hybrid-full-s1"]
    assert "needs more than 0.05 core-minutes; lower steps" in outcome.failed["gspo-hybrid-full-s1"]
    assert "gspo-1" not in results(config)
    (used,) = [line for line in spent(config, "gspo-hybrid-full-s1") if "core_s" in line]
    assert 2.5 < used["core_s"] < 6


def test_a_run_that_fails_stops_no_other_and_is_tried_again_next_time(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN", "bn_gspo-hybrid-full-s2:exit3")
    config = make()
    outcome = run_ablation(config)
    assert outcome.failed.keys() == {"bn_gspo-hybrid-full-s2"}
    assert "exit code 3: vlagent: bn_gspo-hybrid-full-s2 is not to be run" in outcome.failed["bn_gspo-hybrid-full-s2"]
    assert len(results(config)) == 4
    monkeypatch.delenv("STAND_IN")
    assert run_ablation(config).ended == "complete"
    assert len(results(config)) == 5


def test_a_mistake_of_the_user_ends_all_at_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "*:exit2")
    config = make()
    with pytest.raises(UserError, match=r"gspo-hybrid-full-s1: .* is not to be run \(see .*log\.txt\)"):
        run_ablation(config)
    assert list(results(config)) == [f"{BEFORE}-0"]


def test_a_kept_result_of_other_settings_is_refused(make: Make) -> None:
    run_ablation(make())
    with pytest.raises(UserError, match="run with other settings"):
        run_ablation(make("common={steps = 5}"))


@pytest.mark.parametrize("change", ["common={steps = 5}", "evaluation.temperature=0.5", "arms.gspo.optim={lr=1e-5}"])
def test_what_was_run_with_other_settings_gives_no_result_of_these(make: Make, tmp_path: Path, change: str) -> None:
    """Also where the results go to a folder of their own, as one is told to choose."""
    run_ablation(make("seeds=[1]"))
    other = make("seeds=[1]", change, f"results={tmp_path / 'other'}")
    with pytest.raises(UserError, match=r"jobs/.*: was begun with other settings; remove it, or choose another run"):
        run_ablation(other)
    assert results(other) == {}
    elsewhere = other.model_copy(update={"run": str(tmp_path / "elsewhere")})
    assert run_ablation(elsewhere).ended == "complete"
    run_ablation(make("seeds=[1]", "limits.core_minutes=9", f"results={tmp_path / 'same'}"))


@pytest.mark.parametrize(
    "name", ["rl/summary.json", "rl/metrics.jsonl", "eval/samples.jsonl", "eval/rows.jsonl", "eval/trajectories.jsonl"]
)
def test_a_finished_run_whose_files_are_gone_is_named(make: Make, name: str) -> None:
    config = make("seeds=[1]")
    run_ablation(config)
    (Path(config.results) / "runs" / "gspo-hybrid-full-s1.json").unlink()
    (Path(config.run) / "jobs" / "gspo-hybrid-full-s1" / name).unlink()
    with pytest.raises(UserError, match="jobs/gspo-hybrid-full-s1"):
        run_ablation(config)


def test_two_at_once_in_one_folder_are_refused(make: Make) -> None:
    from vlagent.files import only_writer

    config = make()
    with only_writer(Path(config.run)), pytest.raises(UserError, match="another process is writing here"):
        run_ablation(config)


def test_preparations_run_once_and_in_order(make: Make, tmp_path: Path) -> None:
    made = tmp_path / "work" / "made.txt"
    config = make(f'prepare=[{{run = "note {made}", makes = "{made}"}}]')
    run_ablation(config)
    run_ablation(config)
    assert made.read_text() == "made\n"


def test_a_preparation_that_makes_nothing_is_the_users_error(make: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"note .*prepare-0\.txt"):
        run_ablation(make(f'prepare=[{{run = "note {tmp_path / "a"}", makes = "{tmp_path / "b"}"}}]'))


def test_results_say_which_share_of_what_was_scored_is_right(make: Make) -> None:
    config = make("seeds=[1]")
    run_ablation(config)
    assert accuracy(results(config)["gspo-1"]) == pytest.approx(1 / 9)  # the tenth failed: it is no wrong answer
