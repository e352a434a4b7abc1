from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agent.parts import answer
from tests.train.rl.plays import (
    AGENT,
    CROP,
    LOOK_UP,
    TWIN,
    Marker,
    Shelf,
    Twins,
    always,
    chat,
    outcomes,
    play,
    questions,
    rollouts,
)
from vlagent.errors import UserError
from vlagent.model.engine import EngineOptions
from vlagent.model.load import load_policy
from vlagent.model.local_chat import local_chat
from vlagent.rewards.judge import Judge
from vlagent.train.rl.groups import group_rows
from vlagent.train.rl.masking import MaskingConfig
from vlagent.train.rl.rewards import TooManyFaults
from vlagent.train.rl.rollout import Stopped
from vlagent.types import Group, Outcome, StopReason

SCORED = (Outcome.RIGHT, Outcome.WRONG)


def test_every_question_is_played_as_often_as_asked_in_order(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, lambda name, rollout, turn: answer("a0" if rollout else "no"), samples=3)
    assert [group.sample.id for group in groups] == ["s0", "s1"]
    assert [[t.rollout for t in group.trajectories] for group in groups] == [[0, 1, 2]] * 2
    assert [reward.total for reward in groups[0].rewards if reward] == [0.5, 1.5, 1.5]
    assert [reward.total for reward in groups[1].rewards if reward] == [0.5] * 3


def test_a_question_that_comes_twice_gets_further_rollouts(tmp_path: Path, processor: Any) -> None:
    (one,) = questions(tmp_path, 1)
    made = rollouts(tmp_path).collect(0, chat(processor, always(answer("a0"))), [one, one], 2, 7)
    groups = asyncio.run(made)
    assert [[t.rollout for t in group.trajectories] for group in groups] == [[0, 1], [2, 3]]


def test_a_step_that_is_played_again_is_the_same_and_another_is_not(tmp_path: Path, tiny: Path) -> None:
    with_model = local_chat(load_policy(tiny), EngineOptions(max_batch=8, threads=1))
    short = AGENT.model_copy(update={"max_tokens_turn": 8, "max_turns": 2})
    made, jobs = rollouts(tmp_path, config={"concurrency": 3, "agent": short}), questions(tmp_path)

    def ids(step: int, seed: int = 7) -> list[bytes]:
        groups = asyncio.run(made.collect(step, with_model, jobs, 2, seed))
        turns = [turn for group in groups for t in group.trajectories for turn in t.turns]
        return [turn.tokens.ids.tobytes() for turn in turns if turn.tokens]

    first = ids(4)
    made.config = made.config.model_copy(update={"concurrency": 4})
    assert ids(4) == first
    assert ids(5) != first
    assert ids(4, seed=8) != first
    with_model.close()


def test_tools_of_all_episodes_run_at_the_same_time(tmp_path: Path, processor: Any) -> None:
    shelf = Shelf(wait_s=0.02)
    play(tmp_path, processor, always(LOOK_UP, answer("a0")), samples=8, text=shelf)
    assert shelf.peak == 16
    shelf = Shelf(wait_s=0.02)
    play(tmp_path, processor, always(LOOK_UP, answer("a0")), 8, text=shelf, config={"tool_limits": {"text_search": 3}})
    assert shelf.peak == 3


def check_books(groups: list[Group], processor: Any, **masking: Any) -> Counter[str]:
    """Right + wrong + unscored + failed = total; what is no row was left out for a reason."""
    counts = Counter(outcomes(groups))
    total = sum(len(group.trajectories) for group in groups)
    assert sum(counts[each] for each in (*SCORED, Outcome.UNSCORED, Outcome.FAILED)) == total
    made = group_rows(groups, processor.renderer, MaskingConfig(**masking), AGENT)
    assert len(made.rows) + made.left_out.total() == total
    assert len(made.rewards.total) == len(made.rows) == len(made.origin)
    return made.left_out


def test_episodes_after_the_death_of_the_text_search_do_not_train(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, always(LOOK_UP, answer("a0")), samples=4, text=Shelf(works=5))
    assert check_books(groups, processor) == {"degraded": 3}
    for group in groups:
        for trajectory, row, reward in zip(group.trajectories, group.rows, group.rewards, strict=True):
            assert (reward is None) == row.degraded == trajectory.degraded
            assert row.outcome in SCORED
            assert row.reward is not None


def test_episodes_after_the_death_of_the_image_search_do_not_train(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, always(TWIN, answer("a0")), samples=4, images=Twins(works=6))
    assert check_books(groups, processor) == {"degraded": 2}


def test_a_tool_that_stays_dead_ends_the_episode_as_failed(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, always(LOOK_UP), samples=2, text=Shelf(works=0))
    assert set(outcomes(groups)) == {Outcome.FAILED}
    assert check_books(groups, processor) == {"tool_failure": 4}
    assert all(reward is None for group in groups for reward in group.rewards)


def test_episodes_without_a_verdict_of_a_dead_judge_do_not_train(tmp_path: Path, processor: Any) -> None:
    judge = Judge(Marker(works=3))
    line = lambda name, rollout, turn: answer(f"something {rollout}")  # noqa: E731
    groups = play(tmp_path, processor, line, samples=4, judge=judge)
    assert Counter(outcomes(groups)) == {Outcome.RIGHT: 3, Outcome.FAILED: 5}
    assert check_books(groups, processor) == {"judge_failure": 5}


def test_a_judge_that_says_neither_yes_nor_no_leaves_the_episode_unscored(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, always(answer("hm")), judge=Judge(Marker(says="perhaps"), attempts=1))
    assert set(outcomes(groups)) == {Outcome.UNSCORED}
    assert check_books(groups, processor) == {"unscored": 4}


def test_the_judge_is_asked_once_about_the_same_answer_and_by_many_at_once(tmp_path: Path, processor: Any) -> None:
    marker = Marker()
    play(tmp_path, processor, always(answer("same")), samples=4, judge=Judge(marker))
    assert marker.asked == 2
    marker = Marker()
    line = lambda name, rollout, turn: answer(f"something {rollout}")  # noqa: E731
    play(tmp_path, processor, line, samples=4, judge=Judge(marker))
    assert marker.asked == 8
    assert marker.peak > 1
    marker = Marker()
    one = {"judge": {"model": "marker", "calls": 1}}
    play(tmp_path, processor, line, samples=4, judge=Judge(marker), rewards=one)
    assert marker.peak == 1


def test_the_death_of_the_engine_fails_its_episodes_and_no_others(tmp_path: Path, processor: Any) -> None:
    groups = play(tmp_path, processor, always(CROP, answer("a0")), samples=4, limit=13)
    stops = Counter(t.stop for group in groups for t in group.trajectories)
    assert stops == {StopReason.ANSWERED: 5, StopReason.MODEL_FAILURE: 3}
    assert check_books(groups, processor) == {"model_failure": 3}


def test_too_many_faults_end_the_step_and_name_the_service(tmp_path: Path, processor: Any) -> None:
    lines = always(LOOK_UP, answer("a0"))
    with pytest.raises(TooManyFaults, match=r"5 of 8 episodes of a step, most often: .*failed"):
        play(tmp_path, processor, lines, samples=4, text=Shelf(works=1), rewards={"max_fault_share": 0.5})
    assert play(tmp_path, processor, lines, samples=4, text=Shelf(works=4), rewards={"max_fault_share": 0.5})
    judge = Judge(Marker(works=0))
    with pytest.raises(TooManyFaults, match="judge failed: judge: it is down"):
        play(tmp_path, processor, always(answer("hm")), judge=judge, rewards={"max_fault_share": 0.2})


def test_too_many_faults_are_noticed_while_episodes_still_run(tmp_path: Path, processor: Any) -> None:
    rows: list[Any] = []
    shelf = Shelf(works=0)
    with pytest.raises(TooManyFaults):
        play(
            tmp_path,
            processor,
            always(LOOK_UP, answer("a0")),
            samples=50,
            text=shelf,
            rewards={"max_fault_share": 0.02},
            config={"concurrency": 4},
            on_row=rows.append,
        )
    assert len(rows) < 20


def test_a_step_ends_when_the_caller_wants_it_to(tmp_path: Path, processor: Any) -> None:
    asked = iter([False, False, True, True, True])
    with pytest.raises(Stopped):
        play(tmp_path, processor, always(LOOK_UP), text=Shelf(wait_s=3600), stop=lambda: next(asked))


def test_the_caller_is_told_of_every_episode_and_of_the_time(tmp_path: Path, processor: Any) -> None:
    rows: list[Any] = []
    made = rollouts(tmp_path, on_row=rows.append, text=Shelf(wait_s=0.01))
    asyncio.run(made.collect(0, chat(processor, always(LOOK_UP, answer("a0"))), questions(tmp_path), 3, 7))
    assert Counter((row.sample_id, row.rollout) for row in rows) == Counter(
        (f"s{i}", n) for i in (0, 1) for n in (0, 1, 2)
    )
    assert made.times.tools_s >= 6 * 0.01


def test_a_limit_of_a_tool_that_the_run_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'text_serach' is no tool of this run; it has .*text_search"):
        rollouts(tmp_path, config={"tool_limits": {"text_serach": 2}})
