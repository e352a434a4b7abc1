"""Cells of an ablation compared: hand-counted outcomes, and words that claim no more than the numbers carry."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from vlagent.bench.ablation import BEFORE, Contrast, RunResult, accuracy, analyse, curve_over_seeds, read_results
from vlagent.bench.ablation_words import contrast_words, markdown, verdicts
from vlagent.errors import UserError
from vlagent.files import write_json

KINDS = ("read", "fact") * 100


def result(arm: str, seed: int, outcomes: str, mix: str = "hybrid", start: str = "full", **more: Any) -> RunResult:
    fields: dict[str, Any] = {
        "arm": arm,
        "mix": mix,
        "start": start,
        "seed": seed,
        "commands": ("vlagent rl x.toml",),
        "commit": "abc",
        "config": f"{arm}{seed}",
        "steps": 3,
        "core_s": 60.0,
        "questions": "q",
        "kinds": KINDS[: len(outcomes)],
        "outcomes": outcomes,
        "calls": 2.0,
        "redundant": 0.5,
    }
    return RunResult(**(fields | more))


def draw(share: float, seed: int, count: int = 200) -> str:
    rng = random.Random(seed)
    return "".join("1" if rng.random() < share else "0" for _ in range(count))


def only(results: list[RunResult]) -> Contrast:
    (contrast,) = analyse(results).contrasts
    return contrast


def test_accuracy_is_over_what_was_scored_in_all_and_by_kind() -> None:
    run = result("a", 1, "11-0")
    assert accuracy(run) == pytest.approx(2 / 3)
    assert accuracy(run, "read") == 1.0
    assert accuracy(run, "fact") == 0.5


def test_differences_are_paired_by_seed_and_by_question() -> None:
    runs = [result("a", 1, "1100"), result("a", 2, "1000"), result("b", 1, "1110"), result("b", 2, "1010")]
    found = only(runs)
    assert (found.first[0], found.second[0], found.by) == ("a", "b", "arm")
    assert found.seeds.mean == pytest.approx(0.25)
    assert found.seeds.n == found.wins == 2
    assert (found.better, found.worse, found.same) == (1, 0, 3)


def test_only_seeds_that_both_have_are_paired() -> None:
    runs = [result("a", 1, "10"), result("a", 2, "11"), result("b", 2, "11"), result("b", 3, "00")]
    assert only(runs).seeds.n == 1
    assert analyse([result("a", 1, "10"), result("b", 2, "10")]).contrasts == ()


def test_cells_are_compared_only_where_one_thing_differs() -> None:
    runs = [
        result("a", 1, "10"),
        result("b", 1, "11"),
        result("b", 1, "01", mix="search"),
        result("b", 1, "00", start="t"),
    ]
    found = {(c.by, c.first, c.second) for c in analyse(runs).contrasts}
    assert {by for by, _, _ in found} == {"arm", "mix", "start"}
    assert len(found) == 3


def test_the_gain_is_over_the_cold_start_of_the_same_name() -> None:
    runs = [
        result(BEFORE, 0, "1000", mix="none"),
        result(BEFORE, 0, "1100", mix="none", start="tenth"),
        result("a", 1, "1110"),
    ]
    analysis = analyse(runs)
    (cell,) = analysis.cells
    assert cell.gain is not None
    assert cell.gain.mean == pytest.approx(0.5)
    assert cell.gain_kinds["read"].mean == pytest.approx(0.5)
    assert set(analysis.before) == {"full", "tenth"}


def test_a_large_difference_is_called_one() -> None:
    runs = [result("a", s, draw(0.3, s)) for s in range(5)] + [result("b", s, draw(0.7, 50 + s)) for s in range(5)]
    found = only(runs)
    assert found.verdict == "second"
    assert contrast_words(found, analyse(runs)).endswith("b is better.")


def test_without_a_difference_the_words_say_how_large_a_one_would_have_been_found() -> None:
    runs = [result("a", s, draw(0.5, s)) for s in range(5)] + [result("b", s, draw(0.5, 70 + s)) for s in range(5)]
    found = only(runs)
    assert found.verdict == "none"
    assert found.seeds.detectable is not None
    words = contrast_words(found, analyse(runs))
    assert f"one beyond {100 * found.seeds.detectable:.1f} points would have been" in words
    assert "better" not in words


def test_a_difference_of_a_few_questions_that_all_seeds_share_is_unclear() -> None:
    same = "1" * 97 + "0" * 103
    runs = [result("a", s, same) for s in range(5)] + [result("b", s, "1" * 98 + "0" * 102) for s in range(5)]
    found = only(runs)
    assert found.verdict == "unclear"
    assert contrast_words(found, analyse(runs)).count("Unclear") == 1


def test_runs_that_answer_the_same_have_nothing_to_tell_apart() -> None:
    runs = [result(arm, s, draw(0.5, s)) for arm in "ab" for s in range(3)]
    assert only(runs).verdict == "identical"
    assert "same answers" in contrast_words(only(runs), analyse(runs))


def test_many_contrasts_raise_the_bar() -> None:
    noise = random.Random(3)
    runs = [result(arm, s, draw(0.5, noise.randrange(10**6))) for arm in "abcdefg" for s in range(5)]
    analysis = analyse(runs)
    assert len(analysis.contrasts) == 21
    assert all(c.verdict not in ("first", "second") or (c.holm_p or 1) < 0.05 for c in analysis.contrasts)
    assert all(c.holm_p >= c.seeds.p_value for c in analysis.contrasts if c.holm_p is not None and c.seeds.p_value)


def test_a_ratio_that_was_always_one_and_the_factor_are_said() -> None:
    curves: dict[str, Any] = {
        "ratio/one": ((1, 2), (1.0, 1.0)),
        "bn/factor": ((1, 2), (1.2, 1.4)),
        "bn/p": ((1, 2), (0.8, 0.6)),
    }
    analysis = analyse([result("bn_gspo", 1, "10", curves=curves), result("gspo", 1, "10")])
    said = " ".join(verdicts(analysis))
    assert "In bn_gspo the importance ratio was identically 1" in said
    assert "by one factor, at the share of groups that teach, on average: bn_gspo 1.30 at 0.70." in said


def test_the_papers_order_stands_beside_ours_with_what_is_resolved() -> None:
    runs = [result(arm, s, draw(0.5, s)) for arm in ("grpo", "gspo", "bn_gspo") for s in range(2)]
    said = " ".join(verdicts(analyse(runs)))
    assert "GRPO 50.9, GSPO 53.8, BN-GSPO 56.7" in said
    assert "0 of 3 of these differences are resolved" in said


def test_perception_only_is_told_by_kind_beside_table_4() -> None:
    runs = [result(BEFORE, 0, "1000", mix="none"), result("a", 1, "1010", mix="perception")]
    said = " ".join(verdicts(analyse(runs)))
    assert "its table 4 shows small gains (MMSearch 53.80 to 54.09, HR-MMSearch 29.80 to 33.11)" in said
    assert "read +50.0, fact +0.0" in said


def test_a_curve_has_an_interval_only_where_several_seeds_measured_it() -> None:
    one = result("a", 1, "10", curves={"kl": ((1, 2), (0.1, 0.2))})
    two = result("a", 2, "10", curves={"kl": ((1, 2), (0.3, None))})
    (first, second) = curve_over_seeds([one, two], "kl")
    assert first[:2] == (1, pytest.approx(0.2))
    assert first[2] is not None
    assert second == (2, 0.2, None, None)


def test_the_markdown_has_a_row_a_cell_and_a_row_a_contrast() -> None:
    runs = [result(arm, s, draw(0.5, s)) for arm in ("grpo", "gspo") for s in range(2)]
    text = markdown(analyse(runs))
    assert [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| g")] == [
        "grpo",
        "gspo",
        "gspo against grpo",
    ]
    widths = {line.count("|") for line in text.split("##")[1].splitlines() if line.startswith("|")}
    assert len(widths) == 1


def test_results_that_answered_other_questions_are_the_users_error(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", result("a", 1, "10"))
    write_json(tmp_path / "b.json", result("b", 1, "10", questions="others"))
    with pytest.raises(UserError, match="different questions"):
        read_results(tmp_path)
    (tmp_path / "b.json").write_text("{}")
    with pytest.raises(UserError, match=r"b\.json: not the result of a run"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    "change", [{"outcomes": "1"}, {"outcomes": "", "kinds": []}, {"outcomes": "1x"}, {"kinds": ["read"] * 3}]
)
def test_a_result_without_one_mark_a_question_is_named(tmp_path: Path, change: dict[str, Any]) -> None:
    whole = result("grpo", 1, "10").model_dump(mode="json")
    write_json(tmp_path / "a.json", whole)
    assert len(read_results(tmp_path)) == 1
    write_json(tmp_path / "a.json", whole | change)
    with pytest.raises(UserError, match=r"a\.json: not the result of a run .*outcomes"):
        read_results(tmp_path)


def test_a_run_that_two_files_hold_is_counted_by_neither(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_json(tmp_path / f"{name}.json", result("grpo", 1, "10"))
    with pytest.raises(UserError, match="two files hold the run grpo-hybrid-full-s1"):
        read_results(tmp_path)


def test_nothing_finished_is_the_users_error() -> None:
    with pytest.raises(UserError, match="no run is finished"):
        analyse([])
