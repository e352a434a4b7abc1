"""Alarms: each is silent on a healthy run and heard where its trouble begins."""

from __future__ import annotations

import math
from typing import Any

import pytest

from vlagent.train.rl.alarms import AlarmConfig, check

CONFIG = AlarmConfig(baseline=2, window=2, skipped=3)


def steps(*values: dict[str, float]) -> list[dict[str, float]]:
    healthy = {"entropy": 1.0, "calls/all": 2.0, "calls/text_search": 1.0, "calls/redundant": 0.5, "updates/taken": 1.0}
    return [{**healthy, **each} for each in values]


def names(series: list[dict[str, float]], config: AlarmConfig = CONFIG) -> list[str]:
    return [alarm.name for alarm in check(config, len(series), series[-1], series[:-1])]


def test_a_healthy_run_is_silent_at_every_step() -> None:
    series = steps(*({} for _ in range(8)))
    assert [names(series[:n]) for n in range(1, 9)] == [[]] * 8


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_heard_at_once_and_named(value: float) -> None:
    (alarm,) = check(CONFIG, 7, {"loss": value, "kl": 0.0}, [])
    assert (alarm.name, alarm.about, alarm.step) == ("not_a_number", "loss", 7)


TROUBLES: dict[str, Any] = {
    "entropy_collapse": {"entropy": 0.01},
    "no_tool_calls": {"calls/all": 0.0, "calls/text_search": 0.0},
    "dead_services": {"world_faults/all": 0.6, "world_faults/text_search": 0.6},
    "batch_factor": {"bn/factor": 4.5, "bn/p": 0.05},
}


@pytest.mark.parametrize("name", TROUBLES)
def test_each_trouble_raises_its_own_alarm_and_no_other(name: str) -> None:
    bad = TROUBLES[name]
    assert names(steps({}, {}, bad, bad)) == [name]


def test_one_tool_that_is_given_up_is_named() -> None:
    series = steps({}, {}, {"calls/text_search": 0.0}, {"calls/text_search": 0.0})
    (alarm,) = check(CONFIG, 4, series[-1], series[:-1])
    assert alarm.about == "calls/text_search"
    assert alarm.message == "calls of text_search an episode fell from 1.00 to 0.00"


def test_a_tool_that_is_absent_from_a_step_was_not_called() -> None:
    gone = {"entropy": 1.0, "calls/all": 1.5}
    assert names([*steps({}, {}), gone, gone]) == ["no_tool_calls"]


def test_fewer_redundant_calls_are_no_trouble() -> None:
    assert names(steps({}, {}, {"calls/redundant": 0.0}, {"calls/redundant": 0.0})) == []


def test_a_single_service_is_named_rather_than_all_of_them() -> None:
    (alarm,) = check(CONFIG, 1, {"world_faults/all": 0.7, "world_faults/judge": 0.7}, [])
    assert alarm.about == "world_faults/judge"


def test_steps_that_teach_nothing_are_heard_when_there_are_enough_in_a_row() -> None:
    idle = {"updates/taken": 0.0}
    assert names(steps({}, idle, idle)) == []
    assert names(steps({}, idle, idle, idle)) == ["skipped"]
    assert names(steps(idle, idle, {}, idle)) == []


BAD = {"entropy": 0.4}
OPTIONS: list[tuple[dict[str, float], list[dict[str, float]]]] = [
    ({"entropy_share": 0.5}, steps({}, {}, BAD, BAD)),
    ({"calls_share": 0.8}, steps({}, {}, {"calls/all": 1.5}, {"calls/all": 1.5})),
    ({"fault_share": 0.2}, steps({"world_faults/all": 0.3})),
    ({"window": 1}, steps({}, {}, {}, {"entropy": 0.01})),
    ({"baseline": 1}, steps({}, {"entropy": 0.01}, {"entropy": 0.01})),
    ({"skipped": 1}, steps({"updates/taken": 0.0})),
]


@pytest.mark.parametrize(("option", "series"), OPTIONS)
def test_every_option_changes_when_an_alarm_is_raised(option: dict[str, float], series: list[dict[str, float]]) -> None:
    assert names(series) == []
    assert len(names(series, CONFIG.model_copy(update=option))) == 1


def test_a_share_of_faults_is_reached_when_it_is_equal() -> None:
    assert names(steps({"world_faults/judge": 0.5})) == ["dead_services"]
    assert names(steps({"world_faults/judge": 0.49})) == []
