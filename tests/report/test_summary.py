from __future__ import annotations

from typing import Any

from vlagent.bench.summary import Behaviour, Counts, SuiteSummary, Summary, Timing
from vlagent.report.summary import summary_tables


def counts(right: int, wrong: int, failed: int = 0) -> Counts:
    scored = right + wrong
    return Counts(
        questions=scored + failed,
        planned=scored + failed,
        total=scored + failed,
        right=right,
        wrong=wrong,
        unscored=0,
        failed=failed,
        scored=scored,
        accuracy=right / scored if scored else None,
        standard_error=0.1 if scored else None,
        interval=(0.2, 0.8) if scored else None,
        avg_at_k=right / scored if scored else None,
        avg_questions=scored,
        pass_at_k=None,
        pass_questions=0,
    )


def summary(**changes: Any) -> dict[str, Any]:
    behaviour = Behaviour(
        episodes=4,
        stops={"answered": 4},
        turns=2.5,
        calls=1.0,
        tool_calls={"image_crop": 1.0},
        world_faults={},
        invalid=0.0,
        repairs={},
        format_rate=1.0,
        format_scored=4,
        prompt_tokens=1.0,
        completion_tokens=1.0,
        cost_usd=0.0,
    )
    slices = {"kind": {"read": counts(1, 1), "fact": counts(2, 0)}, "level": {"2": counts(3, 1)}}
    suite = SuiteSummary(counts=counts(3, 1), slices=slices, behaviour=behaviour, timing=Timing(p50_s=1, p95_s=2))
    fields: dict[str, Any] = {
        "model": "m",
        "workflow": "agent",
        "dialect": "default",
        "k": 1,
        "scoring": "rules",
        "pixels": {"factor": 32},
        "sampling": {"temperature": 0.0, "top_p": None},
        "counts": counts(3, 1),
        "macro_average": 0.75,
        "suites": {"toy": suite},
    }
    return Summary(**(fields | changes)).model_dump(mode="json")


def test_the_results_stand_by_suite_and_by_slice_with_more_than_one_value() -> None:
    results = summary_tables(summary())[0]
    assert [row[0].strip() for row in results.rows] == ["toy", "kind read", "kind fact"]
    assert results.rows[0][1:5] == ("75.0 % ± 10.0", "20.0 to 80.0", "3", "1")


def test_several_suites_get_a_line_for_all() -> None:
    two = summary()["suites"]["toy"]
    results = summary_tables(summary(suites={"a": two, "b": two}))[0]
    assert results.rows[-1][0] == "mean of the data sets"


def test_nothing_scored_is_said_and_is_not_zero_percent() -> None:
    empty = summary()["suites"]["toy"] | {"counts": counts(0, 0, failed=3).model_dump(), "slices": {}}
    (row,) = summary_tables(summary(suites={"toy": empty}))[0].rows
    assert row[1] == "none scored"


def test_several_rollouts_are_named_in_the_head() -> None:
    assert summary_tables(summary(k=8))[0].head[1:3] == ("Avg@8", "pass@8")


def test_what_was_measured_with_is_told() -> None:
    settings = dict(summary_tables(summary())[2].rows)
    assert settings["picture sizes"] == '{"factor": 32}'
    assert settings["sampling"] == '{"temperature": 0.0}'


def test_another_kind_of_summary_makes_no_table() -> None:
    assert summary_tables({"loss": 1}) == []
    assert summary_tables({}) == []
