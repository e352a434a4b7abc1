"""The numbers of a step, against values counted by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from vlagent.train.rl.metrics import Costs, Update, cost_metrics, episode_metrics, step_metrics, update_metrics
from vlagent.types import (
    Call,
    EvalRow,
    Fault,
    Group,
    Observation,
    Outcome,
    Reward,
    Sample,
    StopReason,
    Tokens,
    Trajectory,
    Turn,
)

Scored = tuple[Outcome, Reward | None]
CROP = Call(name="image_crop", arguments={"bbox": [0, 0, 400, 200], "image_index": 0})


def search(query: str) -> Call:
    return Call(name="text_search", arguments={"query": query})


def turn(call: Call | None = None, tokens: int = 0, **more: Any) -> Turn:
    own = Tokens(np.arange(tokens), None) if tokens else None
    return Turn(text="x", call=call, tokens=own, **more)


def episode(*turns: Turn, stop: StopReason = StopReason.ANSWERED) -> Trajectory:
    return Trajectory(sample_id="s", turns=turns, stop=stop)


def scored(accuracy: float, form: float = 1.0) -> Scored:
    reward = Reward(parts={"accuracy": accuracy, "format": form}, weights={"accuracy": 1.0, "format": 0.5})
    return Outcome.RIGHT if accuracy else Outcome.WRONG, reward


FAILED: Scored = (Outcome.FAILED, None)


def group(kind: str, pairs: list[tuple[Trajectory, Scored]], **extra: Any) -> Group:
    sample = Sample(id="s", source="toy", question="q", extra={"kind": kind, **extra} if kind else extra)
    rows = [
        EvalRow(suite="toy", sample_id="s", outcome=outcome, reward=reward, stop=played.stop)
        for played, (outcome, reward) in pairs
    ]
    return Group(sample, [played for played, _ in pairs], [reward for _, (_, reward) in pairs], rows)


@dataclass
class Normal:
    p: float
    factor: float | None


def test_rewards_and_their_parts_are_means_over_the_scored_episodes() -> None:
    values = episode_metrics(
        [group("read", [(episode(), scored(1, 0)), (episode(), scored(0, 1)), (episode(), FAILED)])]
    )
    assert values["reward/mean"] == pytest.approx(0.75)
    assert values["reward/accuracy"] == 0.5
    assert values["reward/format"] == 0.5
    assert (values["reward/scored"], values["episodes"]) == (2, 3)


def test_success_is_told_by_kind_and_where_a_row_has_none_by_data_set() -> None:
    values = episode_metrics(
        [group("read", [(episode(), scored(1)), (episode(), scored(1))]), group("", [(episode(), scored(0))])]
    )
    assert values["success/all"] == pytest.approx(2 / 3)
    assert (values["success/read"], values["success/toy"]) == (1.0, 0.0)


def test_endings_are_shares_of_the_episodes() -> None:
    at_limit = episode(stop=StopReason.TURN_LIMIT)
    values = episode_metrics([group("read", [(episode(), scored(1)), (at_limit, scored(0))])])
    assert values["stops/answered"] == 0.5
    assert values["stops/turn_limit"] == 0.5


def test_a_failure_of_the_world_is_no_wrong_answer() -> None:
    down = Observation(text="unavailable", fault=Fault.WORLD)
    failed = episode(turn(search("a"), observation=down), stop=StopReason.TOOL_FAILURE)
    judged = episode(turn(answer="x"))
    values = episode_metrics([group("read", [(episode(), scored(1)), (failed, FAILED), (judged, FAILED)])])
    assert values["success/all"] == 1.0
    assert values["world_faults/all"] == pytest.approx(2 / 3)
    assert values["world_faults/text_search"] == pytest.approx(1 / 3)
    assert values["world_faults/judge"] == pytest.approx(1 / 3)


def test_a_dead_model_is_told_apart_from_dead_tools() -> None:
    values = episode_metrics([group("read", [(episode(stop=StopReason.MODEL_FAILURE), FAILED)])])
    assert values["world_faults/model"] == 1.0
    assert "success/all" not in values


def test_calls_are_counted_by_tool_and_by_kind() -> None:
    two = episode(turn(CROP), turn(search("zeddin founded")))
    values = episode_metrics(
        [group("brand", [(two, scored(1)), (episode(), scored(0))]), group("read", [(episode(turn(CROP)), scored(1))])]
    )
    assert values["calls/all"] == 1.0
    assert values["calls/image_crop"] == pytest.approx(2 / 3)
    assert values["calls_by_kind/brand/text_search"] == 0.5
    assert values["calls_by_kind/read/image_crop"] == 1.0
    assert "calls_by_kind/read/text_search" not in values


def test_a_repeated_call_is_one_whose_words_are_the_same_but_for_case_and_spacing() -> None:
    calls = [turn(search("Belmont  Tower")), turn(search("belmont tower ")), turn(search("belmont")), turn(CROP)]
    values = episode_metrics([group("fact", [(episode(*calls), scored(1))])])
    assert values["calls/repeated"] == 1
    assert values["calls/redundant"] == 1


def test_a_redundant_call_is_one_beyond_the_fewest_that_the_row_states() -> None:
    calls = [turn(search("a")), turn(search("b")), turn(CROP)]
    values = episode_metrics([group("fact", [(episode(*calls), scored(1)), (episode(), scored(0))], min_calls=1)])
    assert values["calls/repeated"] == 0
    assert values["calls/redundant"] == 1.0


def test_turns_lengths_and_invalid_actions_are_means_over_episodes() -> None:
    long = episode(turn(CROP, 5), turn(tokens=7, answer="x"))
    bad = episode(turn(tokens=4, error="no call"))
    values = episode_metrics([group("read", [(long, scored(1)), (bad, scored(0))])])
    assert (values["turns/mean"], values["turns/invalid"]) == (1.5, 0.5)
    assert (values["length/mean"], values["length/max"]) == (8, 12)


def test_statistics_of_minibatches_are_weighted_by_their_sequences_and_maxima_stay_maxima() -> None:
    first = Update(Normal(1.0, 1.07), {"clip/high": 0.1, "mismatch/max": 0.5, "ratio/min": 0.9}, 96)
    second = Update(Normal(0.5, 1.51), {"clip/high": 0.3, "mismatch/max": 0.2, "ratio/min": 0.7}, 32)
    values = update_metrics([first, second])
    assert values["bn/p"] == pytest.approx(0.875)
    assert values["bn/factor"] == pytest.approx(0.75 * 1.07 + 0.25 * 1.51)
    assert values["clip/high"] == pytest.approx(0.15)
    assert (values["mismatch/max"], values["ratio/min"]) == (0.5, 0.7)
    assert (values["updates/taken"], values["updates/skipped"]) == (2, 0)


def test_a_skipped_update_is_counted_and_has_no_factor() -> None:
    values = update_metrics([Update(Normal(0.0, None), skipped=True)])
    assert values == {"bn/p": 0.0, "updates/taken": 0.0, "updates/skipped": 1.0}


def test_rates_are_over_the_part_that_made_them() -> None:
    values = cost_metrics(Costs({"rollout": 4.0, "update": 2.0, "tools": 9.0}, 800, 600), episodes=128)
    assert values["speed/sampled_tokens_per_s"] == 200
    assert values["speed/trained_tokens_per_s"] == 300
    assert values["speed/episodes_per_s"] == 32
    assert values["time/tools_s"] == 9.0
    assert values["memory/peak_mb"] > 10


def test_a_step_has_all_parts_and_every_value_is_a_finite_float() -> None:
    groups = [group("read", [(episode(turn(CROP, 3)), scored(1)), (episode(), scored(0))])]
    values = step_metrics(groups, {"world fault": 1}, [Update(Normal(1.0, 1.1), {"kl": 0.1}, 2)], Costs(), {"lr": 1e-5})
    assert {"reward/mean", "left_out/world fault", "bn/p", "kl", "lr", "memory/peak_mb"} <= values.keys()
    assert all(isinstance(value, float) and math.isfinite(value) for value in values.values())


def test_an_answer_is_no_call_beyond_the_fewest() -> None:
    turns = [turn(search("a")), turn(answer="b")]
    assert episode_metrics([group("fact", [(episode(*turns), scored(1))], min_calls=1)])["calls/redundant"] == 0.0
