from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from vlagent.bench.pass_rates import pass_rates
from vlagent.config import make_config
from vlagent.errors import UserError
from vlagent.files import append_jsonl
from vlagent.train.rl.data import DataConfig, Questions, collect_step, is_degenerate
from vlagent.types import EvalRow, Group, Outcome, Reward, Sample, StopReason

KINDS = ("fact", "place", "read")


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """a.jsonl: 30 questions, ten of each kind; b.jsonl: 5."""
    rows("a", tmp_path, [KINDS[i % 3] for i in range(30)])
    rows("b", tmp_path, ["both"] * 5)
    return tmp_path


def rows(name: str, folder: Path, kinds: Sequence[str]) -> None:
    lines = [
        {"id": f"{name}-{i:02}", "prompt": "What?", "reward_model": {"ground_truth": "x"}, "kind": kind}
        for i, kind in enumerate(kinds)
    ]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def data(world: Path, *sources: dict[str, Any], seed: int = 0, **more: Any) -> Questions:
    table = {"sources": [{**source, "data": str(world / source["data"])} for source in sources], **more}
    return Questions(make_config(DataConfig, table), seed)


def drawn(questions: Questions, steps: int, count: int = 7) -> list[str]:
    return [sample.id.split("~")[0] for step in range(steps) for sample in questions.draw(step, count)]


def test_a_question_that_comes_twice_in_a_step_has_two_names(world: Path) -> None:
    ids = [sample.id for sample in data(world, {"data": "b.jsonl"}).draw(0, 7)]
    assert len(set(ids)) == 7
    assert sum("~2" in name for name in ids) == 2


def test_sources_are_mixed_by_weight_whatever_their_size(world: Path) -> None:
    questions = data(world, {"data": "a.jsonl", "weight": 3.0}, {"data": "b.jsonl", "weight": 1.0})
    for steps in (1, 5, 40):
        ids = drawn(questions, steps, count=8)
        assert abs(sum(name.startswith("b") for name in ids) - 0.25 * len(ids)) <= 2
    even = data(world, {"data": "a.jsonl"}, {"data": "b.jsonl"})
    ids = drawn(even, 40, count=8)
    assert abs(sum(name.startswith("b") for name in ids) - 0.5 * len(ids)) <= 2


def test_a_source_is_asked_whole_before_any_question_comes_again(world: Path) -> None:
    questions = data(world, {"data": "a.jsonl"}, {"data": "b.jsonl"})
    ids = [name for name in drawn(questions, 60) if name.startswith("a")]
    laps = [ids[i : i + 30] for i in range(0, len(ids) - 30, 30)]
    assert all(len(set(lap)) == 30 for lap in laps)
    assert laps[0] != laps[1]


def test_a_step_is_a_function_of_seed_and_step_alone(world: Path) -> None:
    sources = ({"data": "a.jsonl"}, {"data": "b.jsonl"})
    first, again, other = (data(world, *sources, seed=seed) for seed in (0, 0, 1))
    assert [s.id for s in first.draw(9, 7)] == drawn(again, 10)[-7:]
    assert drawn(first, 10) != drawn(other, 10)


def test_only_questions_that_pass_the_filter_are_asked(world: Path) -> None:
    search = data(world, {"data": "a.jsonl", "where": {"kind": ["fact", "place"]}})
    assert {sample.extra["kind"] for sample in search.samples} == {"fact", "place"}
    assert set(drawn(search, 10)) == {sample.id for sample in search.samples}
    assert len(data(world, {"data": "a.jsonl", "where": {"source": ["a"]}, "limit": 4}).samples) == 4
    with pytest.raises(UserError, match=r"data\.sources\[0\]: no question"):
        data(world, {"data": "a.jsonl", "where": {"kind": ["none"]}})
    with pytest.raises(UserError, match=r"where: 'kinds' is no column; there are .*kind.*, source"):
        data(world, {"data": "a.jsonl", "where": {"kinds": ["fact"]}})


def test_two_questions_of_one_id_are_told_apart_and_one_question_twice_is_not(world: Path) -> None:
    rows("c", world, ["fact"] * 3)
    renamed = (world / "c.jsonl").read_text().replace("c-", "b-")
    (world / "c.jsonl").write_text(renamed)
    assert {s.id for s in data(world, {"data": "b.jsonl"}, {"data": "c.jsonl"}).samples} >= {"b-00", "1/b-00"}
    assert len(data(world, {"data": "b.jsonl"}, {"data": "b.jsonl"}).samples) == 5


def rates(world: Path) -> str:
    """Question n of 30 is solved in n / 29 of the cases; the last is not measured."""
    lines = [{"sample_id": f"a-{i:02}", "pass_rate": i / 29} for i in range(29)]
    append_jsonl(world / "rates.jsonl", *lines)
    return str(world / "rates.jsonl")


def test_a_curriculum_keeps_the_band_of_measured_pass_rates(world: Path) -> None:
    band = {"pass_rates": rates(world), "low": 0.1, "high": 0.5}
    questions = data(world, {"data": "a.jsonl"}, curriculum=band)
    assert sorted(s.id for s in questions.samples) == [f"a-{i:02}" for i in range(30) if 0.1 <= i / 29 <= 0.5]
    with pytest.raises(UserError, match="measured pass rate from"):
        data(world, {"data": "b.jsonl"}, curriculum=band)
    with pytest.raises(UserError, match=r"low 0\.9 <= start"):
        data(world, {"data": "a.jsonl"}, curriculum={**band, "low": 0.9})


def test_a_ramp_goes_from_the_easy_questions_to_all_of_them(world: Path) -> None:
    ramp = {"pass_rates": rates(world), "ramp_steps": 10, "start": 0.8}
    questions = data(world, {"data": "a.jsonl"}, curriculum=ramp)
    lowest = [min(int(s.id[2:4]) for s in questions.draw(step, 8)) / 29 for step in range(30)]
    for step in range(10):
        assert lowest[step] >= 0.8 * (1 - step / 10) - 1e-9
    assert min(lowest[10:]) < 0.1
    assert [s.id for s in questions.draw(3, 8)] == [s.id for s in questions.draw(3, 8)]
    assert len({s.id for s in questions.draw(0, 5)}) == 5


def test_pass_rates_come_from_an_evaluation_too(tmp_path: Path) -> None:
    def row(name: str, rollout: int, outcome: Outcome) -> EvalRow:
        return EvalRow(suite="x", sample_id=name, rollout=rollout, outcome=outcome, stop=StopReason.ANSWERED)

    outcomes = [Outcome.RIGHT, Outcome.WRONG, Outcome.FAILED, Outcome.UNSCORED, Outcome.WRONG]
    append_jsonl(tmp_path / "rows.jsonl", *(row("a", i, each) for i, each in enumerate(outcomes)))
    append_jsonl(tmp_path / "rows.jsonl", row("b", 0, Outcome.FAILED))
    assert pass_rates(tmp_path) == {"a": pytest.approx(1 / 3)}
    (tmp_path / "bad.jsonl").write_text('{"sample_id": "a"}\n')
    with pytest.raises(UserError, match=r"bad\.jsonl:1: sample_id and pass_rate"):
        pass_rates(tmp_path / "bad.jsonl")
    for rate in ("55", "-0.1", "NaN", '"often"', "null"):
        (tmp_path / "range.jsonl").write_text(f'{{"sample_id": "a", "pass_rate": {rate}}}\n')
        with pytest.raises(UserError, match=r"pass_rate \(0 to 1\)"):
            pass_rates(tmp_path / "range.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UserError, match="holds no pass rate"):
        pass_rates(tmp_path / "empty.jsonl")


def group(sample: Sample, *totals: float | None) -> Group:
    made = [None if t is None else Reward(parts={"accuracy": t}, weights={"accuracy": 1.0}) for t in totals]
    return Group(sample, [], made)


def test_a_group_is_degenerate_when_all_that_trains_is_worth_the_same() -> None:
    one = Sample(id="a", source="x", question="?")
    assert is_degenerate(group(one, 0.1 + 0.2, 0.3, None))
    assert is_degenerate(group(one, None, None))
    assert is_degenerate(group(one))
    assert not is_degenerate(group(one, 0.0, 0.5))


class Course:
    """Groups in which only facts teach; remembers what was played."""

    def __init__(self) -> None:
        self.played: list[tuple[list[str], int]] = []

    async def collect(self, samples: Sequence[Sample], seed: int) -> list[Group]:
        self.played.append(([sample.id for sample in samples], seed))
        return [group(s, 0.0, 1.0 if s.extra["kind"] == "fact" else 0.0) for s in samples]


@pytest.mark.parametrize("rounds", [0, 1, 20])
def test_groups_that_teach_nothing_are_replaced_as_far_as_asked(world: Path, rounds: int) -> None:
    questions, course = data(world, {"data": "a.jsonl"}, dynamic_sampling=rounds), Course()
    found = asyncio.run(collect_step(questions, 2, 9, 5, course.collect))
    first = [s.id for s in questions.draw(2, 9)]
    useless = [place for place, name in enumerate(first) if int(name[2:]) % 3]
    left = sum(is_degenerate(each) for each in found.groups)
    assert len(found.groups) == 9
    assert course.played[0] == (first, 5)
    assert len(course.played) == 1 if rounds == 0 else len(course.played[1][0]) == len(useless)
    assert {0: left == len(useless), 1: left < len(useless), 20: left == 0}[rounds]
    assert len(found.dropped) == found.refilled
    kept = [found.groups[place].sample.id for place in range(9) if place not in useless]
    assert kept == [name for place, name in enumerate(first) if place not in useless]


def test_the_rounds_of_refilling_draw_other_questions_and_other_seeds(world: Path) -> None:
    questions, course = data(world, {"data": "a.jsonl"}, dynamic_sampling=3), Course()
    asyncio.run(collect_step(questions, 2, 9, 5, course.collect))
    seeds = Counter(seed for _, seed in course.played)
    assert set(seeds.values()) == {1}
    again = Course()
    asyncio.run(collect_step(questions, 2, 9, 5, again.collect))
    assert again.played == course.played


def test_the_lowest_rate_of_a_band_is_in_it_and_what_was_never_measured_is_not(world: Path) -> None:
    measured = [{"sample_id": "a-00", "pass_rate": 0.0}, {"sample_id": "a-01", "pass_rate": 0.25}]
    append_jsonl(world / "two.jsonl", *measured)
    for low, asked in ((0.0, ["a-00", "a-01"]), (0.25, ["a-01"])):
        band = {"pass_rates": str(world / "two.jsonl"), "low": low}
        assert [s.id for s in data(world, {"data": "a.jsonl"}, curriculum=band).samples] == asked


def test_free_draws_differ_by_step_and_keep_the_weights(world: Path) -> None:
    sources: list[dict[str, Any]] = [{"data": "a.jsonl", "weight": 9.0}, {"data": "b.jsonl", "weight": 1.0}]
    questions = data(world, *sources)
    refills = [[s.id for s in questions.draw(step, 8, refill=1)] for step in range(40)]
    assert len({tuple(each) for each in refills}) == 40
    share = sum(name.startswith("a") for each in refills for name in each) / 320
    assert 0.84 < share < 0.96
