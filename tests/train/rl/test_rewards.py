from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import answer, call
from tests.train.rl.plays import CROP, INVALID, LOOK_UP, TWIN, Marker, always, play
from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.rewards.judge import Judge
from vlagent.rewards.rubric import Scored
from vlagent.train.rl import rewards
from vlagent.train.rl.rewards import (
    JudgeConfig,
    RewardConfig,
    check_samples,
    is_fault,
    open_judge,
    query_quality,
    repeated_queries,
    score,
)
from vlagent.types import Fault, Outcome, Reward, Sample, StopReason, Trajectory

RIGHT, WRONG = answer("a0"), answer("no")


def episode(folder: Path, processor: Any, *lines: str) -> tuple[Sample, Trajectory]:
    group = play(folder, processor, always(*lines), samples=1, count=1)[0]
    return group.sample, group.trajectories[0]


def worth(played: tuple[Sample, Trajectory], judge: Judge | None = None, **options: Any) -> Reward:
    reward = asyncio.run(score(*played, judge, RewardConfig(**options))).reward
    assert reward is not None
    return reward


def test_by_default_a_reward_is_accuracy_and_half_of_the_format(tmp_path: Path, processor: Any) -> None:
    assert worth(episode(tmp_path, processor, RIGHT)).total == 1.5
    assert worth(episode(tmp_path, processor, LOOK_UP, WRONG)).total == 0.5
    assert worth(episode(tmp_path, processor, INVALID, RIGHT)).total == 1.0
    reward = worth(episode(tmp_path, processor, CROP, CROP, LOOK_UP, RIGHT))
    assert reward.parts == {"accuracy": 1.0, "format": 1.0}


def test_the_weights_are_those_of_the_configuration(tmp_path: Path, processor: Any) -> None:
    assert worth(episode(tmp_path, processor, RIGHT), accuracy=2.0, format=0.25).total == 2.25


def test_a_right_answer_pays_for_its_calls_and_a_wrong_one_does_not(tmp_path: Path, processor: Any) -> None:
    right, wrong = (episode(tmp_path, processor, CROP, LOOK_UP, line) for line in (RIGHT, WRONG))
    assert worth(right, tool_cost=0.05).total == pytest.approx(1.0 * (1 - 0.05 * 2) + 0.5)
    assert worth(wrong, tool_cost=0.05).total == 0.5
    assert worth(right, tool_cost=0.05, accuracy=2.0).total == pytest.approx(2.0 * (1 - 0.05 * 2) + 0.5)


def test_the_cost_of_calls_never_makes_a_right_answer_worth_less_than_a_wrong_one(
    tmp_path: Path, processor: Any
) -> None:
    right, wrong = (episode(tmp_path, processor, CROP, CROP, LOOK_UP, line) for line in (RIGHT, WRONG))
    assert worth(right, tool_cost=0.9).total == worth(wrong, tool_cost=0.9).total == 0.5


def test_every_turn_after_the_first_costs_the_penalty(tmp_path: Path, processor: Any) -> None:
    for line, base in ((RIGHT, 1.5), (WRONG, 0.5)):
        assert worth(episode(tmp_path, processor, line), turn_penalty=0.1).total == base
        played = episode(tmp_path, processor, CROP, CROP, LOOK_UP, line)
        assert worth(played, turn_penalty=0.1).total == pytest.approx(base - 0.3)
        assert worth(played, turn_penalty=0.9).total == pytest.approx(base - 1.0)


def test_a_search_that_was_made_before_costs_the_penalty(tmp_path: Path, processor: Any) -> None:
    again = call("text_search", query=" CASTORE ")
    other = call("text_search", query="castore founded")
    assert worth(episode(tmp_path, processor, LOOK_UP, again, RIGHT), repeat_penalty=0.2).total == pytest.approx(1.3)
    assert worth(episode(tmp_path, processor, LOOK_UP, other, RIGHT), repeat_penalty=0.2).total == 1.5
    played = episode(tmp_path, processor, TWIN, TWIN, TWIN, RIGHT)
    assert repeated_queries(played[1]) == 2
    assert repeated_queries(episode(tmp_path, processor, CROP, CROP, RIGHT)[1]) == 0


def test_a_query_is_good_when_its_results_hold_an_accepted_answer(tmp_path: Path, processor: Any) -> None:
    sample, played = episode(tmp_path, processor, LOOK_UP, RIGHT)
    found = sample.model_copy(update={"answers": ("in 2015",)})
    part_of_a_word = sample.model_copy(update={"answers": ("201",)})
    assert query_quality(found, played) == 1.0
    assert query_quality(part_of_a_word, played) == 0.0
    assert query_quality(found, episode(tmp_path, processor, RIGHT)[1]) == 0.0
    assert query_quality(found, episode(tmp_path, processor, LOOK_UP)[1]) == 0.0, "no answer was given"
    assert worth((found, played), query_quality=0.3).total == pytest.approx(0.5 + 0.3)
    assert worth((part_of_a_word, played), query_quality=0.3).total == 0.5


def test_an_episode_over_a_limit_is_worth_nothing_and_pays_its_penalties(tmp_path: Path, processor: Any) -> None:
    played = episode(tmp_path, processor, LOOK_UP)
    assert worth(played).total == 0.0
    assert worth(played, tool_cost=0.1).total == 0.0
    assert worth(played, turn_penalty=0.1).total == pytest.approx(-0.3)


def test_another_package_can_bring_a_part(tmp_path: Path, processor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site"
    (package / "brief-1.0.dist-info").mkdir(parents=True)
    (package / "brief-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: brief\nVersion: 1.0\n")
    points = "[vlagent.rewards]\nbrief = brief_part:part\ngone = brief_part:gone\n"
    (package / "brief-1.0.dist-info" / "entry_points.txt").write_text(points)
    (package / "brief_part.py").write_text("def part(sample, trajectory):\n    return 1 / len(trajectory.turns)\n")
    monkeypatch.syspath_prepend(str(package))
    played = episode(tmp_path, processor, LOOK_UP, RIGHT)
    assert worth(played, plugins={"brief": 0.5}).total == 1.75
    with pytest.raises(UserError, match="no part 'long'"):
        worth(played, plugins={"long": 1.0})
    with pytest.raises(UserError, match=r"'gone' \(brief_part:gone\) cannot be loaded"):
        worth(played, plugins={"gone": 1.0})


def test_a_plugin_cannot_take_the_name_of_a_part_of_ours() -> None:
    with pytest.raises(UserError, match="turns is a part of our own"):
        make_config(RewardConfig, {"plugins": {"turns": 1.0}})


def test_a_question_that_cannot_be_scored_is_named_before_anything_is_played() -> None:
    fine = Sample(id="a", source="x", question="?", answers=("b",))
    check_samples([fine], None)
    with pytest.raises(UserError, match="'b' has no accepted answer"):
        check_samples([fine, Sample(id="b", source="x", question="?")], None)
    wrong = Sample(id="c", source="x", question="?", answers=("D",), choices={"A": "one", "B": "two"})
    with pytest.raises(UserError, match="'c': 'D' is none of its options"):
        check_samples([wrong], None)
    judged = fine.model_copy(update={"extra": {"reward_fn": ["llm_score"]}})
    with pytest.raises(UserError, match=r"set rewards\.judge"):
        check_samples([judged], None)
    check_samples([judged], Judge(Marker()))


def test_a_judge_remembers_its_verdicts_in_the_run_folder(tmp_path: Path) -> None:
    lines = tmp_path / "lines.json"
    lines.write_text('["VERDICT: YES"]')
    config = JudgeConfig(model=f"scripted:{lines}", with_images=False)
    sample = Sample(id="a", source="x", question="?", answers=("b",))
    assert asyncio.run(open_judge(config, tmp_path).verdict(sample, "bee")).right
    lines.write_text('["VERDICT: NO"]')
    assert asyncio.run(open_judge(config, tmp_path).verdict(sample, "bee")).right
    assert not asyncio.run(open_judge(config, tmp_path).verdict(sample, "other")).right


def test_a_judge_serves_one_event_loop_after_another() -> None:
    judge = Judge(Marker(says="perhaps"), attempts=1)
    sample = Sample(id="a", source="x", question="?", answers=("b",))

    async def several() -> list[bool | None]:
        return [v.right for v in await asyncio.gather(*(judge.verdict(sample, "bee") for _ in range(3)))]

    assert [asyncio.run(several()) for _ in range(2)] == [[None] * 3] * 2


def test_what_a_failed_search_says_is_no_result(tmp_path: Path, processor: Any) -> None:
    sample, played = episode(tmp_path, processor, LOOK_UP, RIGHT)
    found = sample.model_copy(update={"answers": ("in 2015",)})
    first = played.turns[0]
    assert first.observation is not None
    failed = first.model_copy(update={"observation": first.observation.model_copy(update={"fault": Fault.WORLD})})
    assert query_quality(found, played) == 1.0
    assert query_quality(found, played.model_copy(update={"turns": (failed, *played.turns[1:])})) == 0.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_part_that_cannot_be_computed_is_no_0(
    tmp_path: Path, processor: Any, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.setattr(rewards, "plugin", lambda name: lambda sample, trajectory: value)
    with pytest.raises(UserError, match=rf"rewards\.plugins\.brief gave {value}"):
        worth(episode(tmp_path, processor, RIGHT), plugins={"brief": 1.0})


def test_a_budget_that_is_used_up_is_no_fault_of_a_service() -> None:
    scored = Scored(outcome=Outcome.FAILED, why="")
    assert not is_fault(scored, StopReason.BUDGET_LIMIT)
    assert is_fault(scored, StopReason.MODEL_FAILURE)
