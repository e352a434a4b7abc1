from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.toy.parts import World
from vlagent.agent.config import AgentConfig
from vlagent.agent.store import read_trajectories
from vlagent.cli.main import main
from vlagent.errors import UserError
from vlagent.files import read_records
from vlagent.render.sizing import LIMITS
from vlagent.search.open import open_search
from vlagent.toy.demonstrations import DIRECT_ROLLOUT, DemoConfig, demonstrate, jobs_of
from vlagent.types import EvalRow, Fault, Outcome, Trajectory

AGENT = AgentConfig(pixels=LIMITS["tiny"])


def _play(world: World, run: Path, **settings: Any) -> dict[tuple[str, int], Trajectory]:
    config = DemoConfig(agent=AGENT, **settings)
    demonstrate(config, world.samples, open_search(world.folder / "test" / "search"), run)
    return {(played.sample_id, played.rollout): played for played in read_trajectories(run)}


def _calls(played: Trajectory) -> int:
    return sum(turn.call is not None for turn in played.turns)


@pytest.fixture(scope="module")
def clean(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Trajectory]:
    return _play(world, tmp_path_factory.mktemp("demos") / "clean")


def _right(run: Path) -> Counter[bool]:
    return Counter(row.outcome is Outcome.RIGHT for row in read_records(run / "rows.jsonl", EvalRow))


def test_clean_demonstrations_are_right_with_the_fewest_calls(world: World, clean: Any) -> None:
    assert len(clean) == len(world.samples)
    for sample in world.samples:
        assert _calls(clean[sample.id, 0]) == sample.extra["min_calls"]
        assert clean[sample.id, 0].answer == sample.answers[0]


@pytest.mark.parametrize("flaw", ["redundant_call", "stray_crop", "broken_call", "early_guess"])
def test_each_flaw_is_what_its_name_says(world: World, clean: Any, tmp_path: Path, flaw: str) -> None:
    flawed = _play(world, tmp_path / "run", flaws={flaw: 1.0})
    more = [_calls(flawed[key]) - _calls(played) for key, played in clean.items()]
    faults = [turn.observation.fault is Fault.MODEL for t in flawed.values() for turn in t.turns if turn.observation]
    if flaw == "early_guess":
        assert all(count < 0 for count in more)
        assert _right(tmp_path / "run")[True] <= 3
        return
    assert _right(tmp_path / "run")[False] == 0
    assert all(count == (0 if flaw == "broken_call" else 1) for count in more)
    assert sum(faults) == (len(clean) if flaw == "broken_call" else 0)
    lengths = {key: len(played.turns) - len(clean[key].turns) for key, played in flawed.items()}
    assert set(lengths.values()) == {1}


def test_the_mix_follows_from_the_seed(world: World, tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        played = _play(world, tmp_path / name, flaws={"early_guess": 0.5}, seed=seed, concurrency=3)
        texts.append({key: [turn.text for turn in t.turns] for key, t in played.items()})
    assert texts[0] == texts[1] != texts[2]


def test_direct_answers_state_the_truth_in_one_turn(world: World, tmp_path: Path) -> None:
    played = _play(world, tmp_path / "run", direct=0.5)
    direct = [t for (_, rollout), t in played.items() if rollout == DIRECT_ROLLOUT]
    assert len(direct) == len(world.samples) // 2
    assert {(t.workflow, len(t.turns)) for t in direct} == {("direct", 1)}
    assert _right(tmp_path / "run")[False] == 0


def test_settings_that_do_not_fit_are_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at most 1 together"):
        DemoConfig(flaws={"early_guess": 0.7, "stray_crop": 0.7})
    (tmp_path / "x").write_text("")
    with pytest.raises(UserError, match="not empty"):
        _play(world, tmp_path)
    assert len(jobs_of(DemoConfig(rollouts=3), world.samples)["agent"]) == 3 * len(world.samples)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--imperfect", "early_guess=3"], "--imperfect: the shares of the flaws must be"),
        (["--imperfect", "nope=0.3"], "'nope'"),
        (["--direct", "-1"], "direct = -1.0"),
    ],
)
def test_a_mistake_in_the_flaws_is_one_short_line(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["toy", "demos", str(tmp_path), str(tmp_path / "run"), *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err) < 250
